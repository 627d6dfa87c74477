import { basename } from 'node:path';
import { VERSION } from '../base/version.ts';

const TOOLS = ['netplugctl', 'kubectl-netplug', 'kubectl_complete-netplug'];
const RESIDENT = [
  'netplug-agent',
  'netplug-network',
  'netplug-bird',
  'netplug-orch-controllers',
  'netplug-operator',
  'netplug-typha',
];
const PROGRAMS = ['netplug', 'netplug-ipam', 'netplug-standalone', ...RESIDENT, ...TOOLS];

// One executable has several names, as hard links or copies of the same file; the name decides which program runs.
// The shim starts netplug-standalone under the name of the shim.
const names = [process.argv0, process.argv[1] ?? '', process.execPath].map((path) => basename(path));
const program = names.find((name) => PROGRAMS.includes(name));

// An event loop that ends early must not look like success.
process.exitCode = 1;

if (program !== undefined && TOOLS.includes(program)) {
  void import('./netplugctl.ts').then(async ({ runCtl }) => runCtl(program));
} else if (program !== undefined && RESIDENT.includes(program) && process.argv[2] === '--version') {
  process.stdout.write(`${program} ${VERSION}\n`);
  process.exitCode = 0;
} else if (program === 'netplug-agent') {
  void import('./agent.ts').then(async ({ runAgent }) => runAgent());
} else if (program === 'netplug-network') {
  void import('./network.ts').then(async ({ runNetwork }) => runNetwork());
} else if (program === 'netplug-bird') {
  void import('./bird.ts').then(async ({ runBird }) => runBird());
} else if (program === 'netplug-orch-controllers') {
  void import('./controllers.ts').then(async ({ runControllers }) => runControllers());
} else if (program === 'netplug-operator') {
  void import('./operator.ts').then(async ({ runOperator }) => runOperator());
} else if (program === 'netplug-typha') {
  void import('./typha.ts').then(async ({ runTypha }) => runTypha());
} else {
  const isAddressManager = program === 'netplug-ipam';
  void import('./plugin.ts').then(async ({ runCni }) => runCni(isAddressManager ? 'netplug-ipam' : 'netplug'));
}
