import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const run = promisify(execFile);
/** Opens a namespace in a process without free file descriptors, and prints the code of the error. */
const SCRIPT = `
  import { openSync } from 'node:fs';
  const { openNetns } = await import('./src/dataplane/linux/netns.ts');
  const opened = () => { try { return openSync('/dev/null') > 0; } catch { return false; } };
  while (opened());
  try { openNetns({}, '/proc/self/ns/net', { allowOwn: false }); } catch (cause) { console.log(cause.code, cause.message); }
`;

it('asks to try again when the process has no free file descriptor', async () => {
  const node = [process.execPath, '--input-type=module', '-e', SCRIPT];
  const { stdout } = await run('prlimit', ['--nofile=64:64', ...node]);
  expect(stdout.trim()).toBe('kernel/failed Cannot open network namespace "/proc/self/ns/net": EMFILE');
});
