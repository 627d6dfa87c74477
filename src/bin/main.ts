import { basename } from 'node:path';
import { ownValue } from '../base/own-value.ts';
import { VERSION } from '../base/version.ts';
import { runResident } from './run-resident.ts';

const TOOLS = ['netplugctl', 'kubectl-netplug', 'kubectl_complete-netplug'];
/** Each loads its modules when it runs. */
const RESIDENT: Readonly<Record<string, () => Promise<void>>> = {
  'netplug-agent': async () => runResident((await import('./agent.ts')).runAgent),
  'netplug-network': async () => (await import('./network.ts')).runNetwork(),
  'netplug-orch-controllers': async () => runResident((await import('./controllers.ts')).runControllers),
  'netplug-operator': async () => runResident((await import('./operator.ts')).runOperator),
  'netplug-typha': async () => runResident((await import('./typha.ts')).runTypha),
};
const PROGRAMS = ['netplug', 'netplug-ipam', 'netplug-standalone', ...Object.keys(RESIDENT), ...TOOLS];

// One executable has several names, as hard links or copies of the same file; the name decides which program runs.
// The shim starts netplug-standalone under the name of the shim.
const names = [process.argv0, process.argv[1] ?? '', process.execPath].map((path) => basename(path));
const program = names.find((name) => PROGRAMS.includes(name));
const resident = ownValue(RESIDENT, program ?? '');

// An event loop that ends early must not look like success.
process.exitCode = 1;

if (program !== undefined && TOOLS.includes(program)) {
  void import('./netplugctl.ts').then(async ({ runCtl }) => runCtl(program));
} else if (resident !== undefined && process.argv[2] === '--version') {
  process.stdout.write(`${program ?? ''} ${VERSION}\n`);
  process.exitCode = 0;
} else if (resident !== undefined) {
  void resident();
} else {
  const isAddressManager = program === 'netplug-ipam';
  void import('./plugin.ts').then(async ({ runCni }) => runCni(isAddressManager ? 'netplug-ipam' : 'netplug'));
}
