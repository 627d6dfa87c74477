import { basename } from 'node:path';
import { startupSnapshot } from 'node:v8';
import { runCni } from './plugin.ts';
import { rehearse } from './rehearsal.ts';
import { runStandaloneServer } from './standalone-server.ts';

/** As native/standalone.c sets it. */
const TUNED_BY_SHIM = 'glibc.malloc.hugetlb=1';

/**
 * The entry point of netplug-standalone, which starts from a heap snapshot that contains the plugin, so that no code must
 * be loaded. Code outside `main` runs once, when the snapshot is built, and must not read process state or random bytes.
 * The shim passes its own name in argv0, or the argument `serve` for a server of several calls.
 */
startupSnapshot.setDeserializeMainFunction(function main() {
  // An event loop that ends early must not look like success.
  process.exitCode = 1;
  // Set by the shim for this process alone.
  if (process.env['GLIBC_TUNABLES'] === TUNED_BY_SHIM) delete process.env['GLIBC_TUNABLES'];
  const at = process.argv.indexOf('serve');
  if (at >= 0) void runStandaloneServer(process.argv.slice(at + 1));
  else void runCni(basename(process.argv0) === 'netplug-ipam' ? 'netplug-ipam' : 'netplug');
});

// A failure ends the build: an unhandled rejection is fatal.
void rehearse();
