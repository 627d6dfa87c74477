// The programs under test, as `make build` left them.
import { join, resolve } from 'node:path';

/** The folder of every built program. */
export const BUILT = resolve(import.meta.dirname, '../../dist/bin');

export const NETPLUGCTL = join(BUILT, 'netplugctl');
export const SIDECAR = join(BUILT, 'netplug-sidecar');
