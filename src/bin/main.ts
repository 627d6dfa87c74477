import { basename } from 'node:path';

// One executable under several names: each is a hard link or a copy of the same file, told apart by how it was called.
const names = [process.argv0, process.argv[1] ?? '', process.execPath].map((path) => basename(path));
const program = names.find((name) => ['netplug', 'netplug-ipam', 'netplugctl'].includes(name)) ?? 'netplug';

// Whatever ends the event loop early must not look like success.
process.exitCode = 1;

if (program === 'netplugctl') {
  void import('./netplugctl.ts').then(async ({ runCtl }) => runCtl());
} else {
  const isAddressManager = program === 'netplug-ipam';
  void import('./plugin.ts').then(async ({ runCni }) => runCni(isAddressManager ? 'netplug-ipam' : 'netplug'));
}
