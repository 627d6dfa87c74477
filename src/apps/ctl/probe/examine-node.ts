import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { LEFT_OVER_REMEDY, leftOverSentence } from '../../../install/host/left-overs.ts';
import { findOtherFolders } from '../../../install/host/runtime-folders.ts';
import { problemSentence } from '../../../model/node-report.ts';
import { errnoOf } from '../../../base/errors.ts';
import { ABILITIES, tryAbilities } from '../doctor/kernel-facts.ts';
import { readLeftOversBeside } from '../doctor/read-left-overs.ts';
import type { HostNetwork } from '../../../dataplane/host-network.ts';
import { VXLAN_PORT, VXLAN_VNI } from '../../../routing/tunnels.ts';
import type { PacketTables } from '../../../dataplane/packet-tables.ts';
import type { Context, CtlPorts, Status } from '../ports.ts';

export interface NodeExamination {
  readonly confDir: string;
  readonly binDir: string;
  /** Name of the conflist of netplug. */
  readonly confName: string;
  readonly ports: readonly number[];
  /** Whether configurations of other plugins may be read first. */
  readonly keepsPlugin: boolean;
  /** File that gets the output as well. */
  readonly messageFile: string | undefined;
}

/** Of a longer message the kubelet keeps only the end. */
const MESSAGE_LENGTH = 4000;
const NEEDED = ABILITIES.filter((ability) => ability !== 'ipip');

/** Prints what would keep netplug from working on this node, and what should go. Returns 1 when the former is something. */
export async function examineNode({ io, ports, signal }: Context, examination: NodeExamination): Promise<Status> {
  const elsewhere = examination.keepsPlugin ? [] : await findOtherFolders(ports.host.procDir, examination);
  const faults = [
    ...elsewhere.map(problemSentence),
    ...(examination.keepsPlugin ? [] : await findEarlierConfigurations(examination)),
    ...(examination.keepsPlugin ? [] : await findRivalDevices(ports.openHostNetwork())),
    ...(await findMissingAbilities(ports.openPacketTables(), signal)),
    ...(await findPortsInUse(examination.ports)),
  ];
  const warnings = examination.keepsPlugin ? [] : await findRemains(ports, examination.confDir, signal);
  const lines = [...faults, ...warnings.map((warning) => `warning: ${warning}`)];
  for (const line of lines) io.stdout(`${line}\n`);
  if (faults.length === 0) io.stdout('nothing keeps netplug from working\n');
  if (examination.messageFile !== undefined && lines.length > 0)
    await writeFile(examination.messageFile, lines.join('\n').slice(0, MESSAGE_LENGTH));
  return faults.length === 0 ? 0 : 1;
}

/** Runtimes use the first file in the order of names. */
async function findEarlierConfigurations({ confDir, confName }: NodeExamination): Promise<readonly string[]> {
  const names = await readdir(confDir).catch((cause: unknown) => {
    if (errnoOf(cause) === 'ENOENT') return [];
    throw cause;
  });
  const earlier = names.filter((name) => /\.(conf|conflist|json)$/.test(name) && name < confName).sort();
  const foreign: string[] = [];
  for (const name of earlier) {
    const text = await readFile(join(confDir, name), 'utf8').catch(() => '');
    if (!/"type":\s*"netplug"/.test(text)) foreign.push(name);
  }
  return foreign.map(
    (name) =>
      `${join(confDir, name)}: the runtime reads this configuration of another plugin first; remove it, or use --variant second-plugin`,
  );
}

/** Returns what other plugins have left, a sentence each. It keeps netplug from nothing by itself. */
export async function findRemains(
  ports: Pick<CtlPorts, 'host' | 'openPacketTables'>,
  confDir: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const kernel = { procDir: ports.host.procDir, tables: ports.openPacketTables() };
  const found = await readLeftOversBeside(kernel, confDir, signal);
  return found.map((each) => `${leftOverSentence(each)}. ${LEFT_OVER_REMEDY}`);
}

/** Returns VXLAN devices beside which netplug can make no tunnel, a sentence each. */
export async function findRivalDevices(host: HostNetwork): Promise<readonly string[]> {
  const rivals = await host.findRivals({ vni: VXLAN_VNI, port: VXLAN_PORT });
  return rivals.map(
    (rival) =>
      `VXLAN device "${rival}": it has the number ${String(VXLAN_VNI)} and the port ${String(VXLAN_PORT)} of netplug's; if nothing needs it any more, delete it: ip link delete dev ${rival}`,
  );
}

async function findMissingAbilities(tables: PacketTables, signal: AbortSignal): Promise<readonly string[]> {
  const abilities = await tryAbilities(tables, signal);
  return NEEDED.filter((ability) => abilities[ability] === false).map(
    (ability) =>
      `kernel: it lacks ${ability}; load the module, or install the package of kernel modules of the distribution`,
  );
}

async function findPortsInUse(ports: readonly number[]): Promise<readonly string[]> {
  const faults = await Promise.all(
    ports.map(async (port) =>
      (await isFree(port)) ? [] : [`127.0.0.1:${String(port)}: another program listens there; move it to another port`],
    ),
  );
  return faults.flat();
}

async function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => {
      resolve(false);
    });
    server.listen(port, '127.0.0.1', () => {
      server.close(() => {
        resolve(true);
      });
    });
  });
}
