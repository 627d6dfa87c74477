import { basename } from 'node:path';
import { startupSnapshot } from 'node:v8';
import { runCni } from './plugin.ts';
import { runStandaloneServer } from './standalone-server.ts';

/**
 * The entry point of netplug-standalone, which starts from a heap snapshot that contains the plugin, so that no code must
 * be loaded. Code outside `main` runs once, when the snapshot is built, and must not read process state or random bytes.
 * The shim passes its own name in argv0, or the argument `serve` for a server of several calls.
 */
startupSnapshot.setDeserializeMainFunction(function main() {
  // An event loop that ends early must not look like success.
  process.exitCode = 1;
  const at = process.argv.indexOf('serve');
  if (at >= 0) void runStandaloneServer(process.argv.slice(at + 1));
  else void runCni(basename(process.argv0) === 'netplug-ipam' ? 'netplug-ipam' : 'netplug');
});
