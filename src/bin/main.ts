import { basename } from 'node:path';

const TOOLS = ['netplugctl', 'kubectl-netplug', 'kubectl_complete-netplug'];
const PROGRAMS = ['netplug', 'netplug-ipam', 'netplug-standalone', 'netplug-agent', 'netplug-network', ...TOOLS];

// One executable has several names, as hard links or copies of the same file; the name decides which program runs.
// The shim starts netplug-standalone under the name of the shim.
const names = [process.argv0, process.argv[1] ?? '', process.execPath].map((path) => basename(path));
const program = names.find((name) => PROGRAMS.includes(name));

// An event loop that ends early must not look like success.
process.exitCode = 1;

if (program !== undefined && TOOLS.includes(program)) {
  void import('./netplugctl.ts').then(async ({ runCtl }) => runCtl(program));
} else if (program === 'netplug-agent') {
  void import('./agent.ts').then(async ({ runAgent }) => runAgent());
} else if (program === 'netplug-network') {
  void import('./network.ts').then(async ({ runNetwork }) => runNetwork());
} else {
  const isAddressManager = program === 'netplug-ipam';
  void import('./plugin.ts').then(async ({ runCni }) => runCni(isAddressManager ? 'netplug-ipam' : 'netplug'));
}
