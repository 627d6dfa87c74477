import { basename } from 'node:path';
import { runCni } from './plugin.ts';
import { runStandaloneServer } from './standalone-server.ts';

/** The runtime of the executable. */
declare const Bun: { readonly unsafe: { readonly setJITPolicy: (scale: number) => void } };

/**
 * The entry point of netplug-standalone, which serves one call, or with the argument `serve` several. The shim passes its own
 * name in argv0.
 */
function main(): void {
  // An event loop that ends early must not look like success.
  process.exitCode = 1;
  const at = process.argv.indexOf('serve');
  if (at < 0) return void runCni(basename(process.argv0) === 'netplug-ipam' ? 'netplug-ipam' : 'netplug');
  // The build has compilation put off, which pays off only where code runs again.
  Bun.unsafe.setJITPolicy(1);
  void runStandaloneServer(process.argv.slice(at + 1));
}

main();
