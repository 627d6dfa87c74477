import { basename } from 'node:path';
import { startupSnapshot } from 'node:v8';
import { runCni } from './plugin.ts';

/**
 * The entry of netplug-standalone, which starts from a snapshot of the heap with the plugin in it, so that no code has to
 * be loaded. Everything before `main` runs once, when the snapshot is built: state of the process and random bytes must
 * not be read there. The shim passes its own name.
 */
startupSnapshot.setDeserializeMainFunction(function main() {
  // An event loop that ends early must not look like success.
  process.exitCode = 1;
  void runCni(basename(process.argv0) === 'netplug-ipam' ? 'netplug-ipam' : 'netplug');
});
