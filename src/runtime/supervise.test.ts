import { describe, expect, it } from 'vitest';
import { supervise, type SupervisedPart } from './supervise.ts';

/** Runs until aborted, then takes a moment to end. */
function part(log: string[], name: string, atEnd: () => void = () => undefined): SupervisedPart {
  return async (signal) => {
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    await new Promise(setImmediate);
    log.push(name);
    atEnd();
  };
}

describe('supervise', () => {
  it('aborts all parts when one of them ends, and waits for all', async () => {
    const ended: string[] = [];
    const short = async (): Promise<void> => Promise.resolve();
    await supervise([part(ended, 'a'), short, part(ended, 'b')], new AbortController().signal);
    expect(ended).toEqual(['a', 'b']);
  });

  it('aborts all parts when the program is stopped', async () => {
    const ended: string[] = [];
    const stop = new AbortController();
    const done = supervise([part(ended, 'a'), part(ended, 'b')], stop.signal);
    stop.abort();
    await done;
    expect(ended).toEqual(['a', 'b']);
  });

  it('throws the first failure when other parts fail because of it', async () => {
    const ended: string[] = [];
    const failing = async (): Promise<void> => Promise.reject(new Error('the disk is full'));
    const aborted: SupervisedPart = async (signal) => {
      await part(ended, 'a')(signal);
      throw new Error('cannot read', { cause: signal.reason });
    };
    const late = part(ended, 'b', () => {
      throw new Error('cannot flush');
    });
    await expect(supervise([aborted, failing, late], new AbortController().signal)).rejects.toThrow('the disk is full');
    expect(ended).toEqual(['a', 'b']);
  });

  it('throws a failure during shutdown, but not an abort error', async () => {
    const stop = new AbortController();
    stop.abort();
    const aborted: SupervisedPart = async (signal) => Promise.reject(signal.reason as Error);
    await supervise([aborted], stop.signal);
    const failing: SupervisedPart = async () => Promise.reject(new Error('cannot flush'));
    await expect(supervise([aborted, failing], stop.signal)).rejects.toThrow('cannot flush');
  });
});
