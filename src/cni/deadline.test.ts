import { describe, expect, it } from 'vitest';
import { deadlines } from './deadline.ts';

const never = new AbortController().signal;

describe('the deadline of a call', () => {
  it.each(['0', '-1', 'soon', '1e3', '999999', ' 5'])('refuses NETPLUG_CALL_TIMEOUT=%j', (text) => {
    expect(() => deadlines({ NETPLUG_CALL_TIMEOUT: text }, 'ADD', never)).toThrow('NETPLUG_CALL_TIMEOUT');
  });

  it('aborts the work before the cleanup, so that there is time to undo it', async () => {
    const limits = deadlines({ NETPLUG_CALL_TIMEOUT: '0.5' }, 'ADD', never);
    await new Promise((resolve) => limits.work.addEventListener('abort', resolve, { once: true }));
    expect(limits.cleanup.aborted).toBe(false);
    expect(limits.work.reason).toMatchObject({
      code: 'cni/deadline',
      message: 'Timed out after 0.4 s while serving ADD',
    });
  });

  it('aborts the work when the caller gives up', () => {
    const caller = new AbortController();
    const limits = deadlines({}, 'DEL', caller.signal);
    caller.abort();
    expect(limits.work.reason).toMatchObject({ message: 'Interrupted by the caller while serving DEL' });
    expect(limits.cleanup.aborted).toBe(false);
  });

  it('aborts the work of a caller that had given up before the call began', () => {
    const limits = deadlines({}, 'ADD', AbortSignal.abort());
    expect(limits.work.reason).toMatchObject({ message: 'Interrupted by the caller while serving ADD' });
    limits.clear();
  });
});
