import { describe, expect, it } from 'vitest';
import { callCtl } from '../../../test/support/ctl.ts';

describe('an unreadable file', () => {
  it.each([
    [['lint', '/no/such/file'], 'Name a file, a folder, or "-" for standard input'],
    [['get', '-f', '/no/such/file'], 'Name a file, a folder, or "-" for standard input'],
    [['--config', 'src', 'get', 'ippools'], 'Name a file that can be read'],
  ])('causes an error whose hint says what to name: %s', async (argv, hint) => {
    const { status, err } = await callCtl(argv, {});
    expect(status).toBe(64);
    expect(err).toContain(`\n  hint: ${hint}\n`);
  });
});
