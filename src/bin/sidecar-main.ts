import { VERSION } from '../base/version.ts';
import { runResident } from './run-resident.ts';
import { runSidecar } from './sidecar.ts';

// An event loop that ends early must not look like success.
process.exitCode = 1;
if (process.argv[2] === '--version') {
  process.stdout.write(`netplug-sidecar ${VERSION}\n`);
  process.exitCode = 0;
} else void runResident(runSidecar);
