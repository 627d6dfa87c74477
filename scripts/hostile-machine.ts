// Fills this machine with an installation of netplug that is hostile to tests, runs vitest, and fails when a test has
// used the installation. run-vitest.ts starts it in a mount namespace of its own, and only there may it run.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';

const SOCKET = '/run/netplug/cni.sock';
/** The places of a real installation; nothing of it stays visible. */
const PLACES = ['/run/netplug', '/var/lib/netplug', '/var/lib/cni', '/var/log/netplug', '/etc/cni', '/opt/cni'];
const GARBAGE = '{"hostile": ';
const NETWORK = { name: 'k8s-pod-network', cniVersion: '0.0.0', plugins: [{ type: 'netplug', ipam: 'hostile' }] };
const FILES: Readonly<Record<string, string>> = {
  '/run/netplug/bird/bird.conf': GARBAGE,
  '/var/lib/netplug/nodename': 'hostile-node\n',
  '/var/lib/netplug/mtu': '577\n',
  '/var/lib/netplug/install.json': GARBAGE,
  '/var/lib/netplug/journal/00000000-hostile.jsonl': GARBAGE,
  '/var/lib/cni/networks/k8s-pod-network/10.65.0.1': 'hostile',
  // Programs that log there find no folder.
  '/var/log/netplug': GARBAGE,
  '/etc/cni/net.d/00-hostile.conflist': GARBAGE,
  '/etc/cni/net.d/10-netplug.conflist': JSON.stringify(NETWORK),
  '/opt/cni/bin/hostile': '#!/bin/sh\nexit 70\n',
};

const mounts = readFileSync('/proc/self/mounts', 'utf8');
const isApart = ['/etc', '/opt', '/run', '/var'].every((tree) => mounts.includes(`\noverlay ${tree} `));
if (!import.meta.main || !isApart)
  throw new Error('this replaces the installation of netplug on the machine: run scripts/run-vitest.ts');
for (const place of PLACES) rmSync(place, { recursive: true, force: true });
for (const [path, text] of Object.entries(FILES)) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { mode: path.startsWith('/opt/') ? 0o755 : 0o666 });
}
/** Times and first bytes of connections to the agent, which identify the test. */
const said: { readonly at: string; text: string }[] = [];
const agent = createServer((socket) => {
  const call = { at: new Date().toISOString(), text: '' };
  said.push(call);
  socket.on('error', () => undefined);
  socket.setEncoding('utf8').on('data', (text: string) => (call.text = `${call.text}${text}`.slice(0, 300)));
  socket.end(GARBAGE);
});
agent.listen(SOCKET);
await once(agent, 'listening');
const before = snapshot();

const child = spawn(process.execPath, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
const [status] = (await once(child, 'exit')) as [number | null];
const after = snapshot();
agent.close();

const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
  (path) => before.get(path) !== after.get(path),
);
const found = [
  ...changed.map((path) => `a test changed ${path}`),
  ...said.map(({ at, text }) => `a test connected to ${SOCKET} at ${at} and said ${JSON.stringify(text)}`),
];
for (const line of found) process.stderr.write(`FAILED the tests use the installation of this machine: ${line}\n`);
process.exitCode = found.length === 0 ? (status ?? 1) : 1;

/** What is at the places, by path: the text of files, the identity of everything else. */
function snapshot(): ReadonlyMap<string, string> {
  const paths = PLACES.filter((place) => existsSync(place)).flatMap((place) => [place, ...globSync(`${place}/**`)]);
  return new Map(
    paths.map((path) => {
      const found = lstatSync(path);
      return [path, found.isFile() ? readFileSync(path, 'utf8') : `${String(found.mode)} ${String(found.ino)}`];
    }),
  );
}
