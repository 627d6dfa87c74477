import { expect, it } from 'vitest';
import { NetplugError } from '../base/errors.ts';
import { DelegateError } from './delegate.ts';
import { renderError } from './error-output.ts';

const EVIL = '\u001b]0;owned\u0007\u009b2K\u202e\r';

it('an error document steers no terminal that shows what the runtime reports of it, and keeps its lines', () => {
  const causes = [
    new NetplugError('annotation/invalid', `first\nsecond ${EVIL}`, { hint: `do ${EVIL}` }),
    new DelegateError('p', { code: 7, msg: `first\nsecond ${EVIL}`, details: `do ${EVIL}` }),
  ];
  for (const cause of causes) {
    const { msg, details } = renderError(cause, '1.1.0') as { msg: string; details: string };
    expect(msg).toContain(String.raw`first${'\n'}second \u001b]0;owned\u0007\u009b2K\u202e\u000d`);
    expect(details).toContain(String.raw`do \u001b]0;owned\u0007\u009b2K\u202e\u000d`);
  }
});
