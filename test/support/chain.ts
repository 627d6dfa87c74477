// What a runtime's CNI library does with a network configuration list: plugins in order, results handed on.
import type { CniAnswer, CniCall, Json, TestNode } from './node.ts';

/** A network configuration list as it stands in /etc/cni/net.d. */
export interface Conflist {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly Readonly<Record<string, Json>>[];
}

/** One attachment, as the runtime knows it. */
export interface ChainCall extends Omit<CniCall, 'plugin' | 'conf'> {
  /** Passed to a plugin as `runtimeConfig` as far as its `capabilities` say true. */
  readonly capabilityArgs?: Readonly<Record<string, Json>>;
  /** The result of ADD that the runtime has kept; for DEL and CHECK. */
  readonly cached?: Json;
}

/** A plugin of the chain ended with an error. */
export class ChainError extends Error {
  readonly plugin: string;
  readonly answer: CniAnswer;

  constructor(plugin: string, answer: CniAnswer) {
    super(`${plugin} refused: ${answer.stdout}${answer.stderr}`);
    this.plugin = plugin;
    this.answer = answer;
  }
}

/** ADD: every plugin in order with the result of the one before; returns the last result, which a runtime keeps. */
export async function chainAdd(node: TestNode, list: Conflist, call: ChainCall): Promise<Json> {
  let prevResult: Json = undefined;
  for (const plugin of list.plugins) prevResult = (await callOne(node, 'ADD', { list, plugin, prevResult, call })).json;
  return prevResult;
}

/** CHECK: every plugin in order with the final result. */
export async function chainCheck(node: TestNode, list: Conflist, call: ChainCall): Promise<void> {
  for (const plugin of list.plugins) await callOne(node, 'CHECK', { list, plugin, prevResult: call.cached, call });
}

/** DEL: every plugin in reverse with the final result, if the runtime still has it. */
export async function chainDel(node: TestNode, list: Conflist, call: ChainCall): Promise<void> {
  for (const plugin of list.plugins.toReversed()) {
    await callOne(node, 'DEL', { list, plugin, prevResult: call.cached, call });
  }
}

/** Records the result as the library does after an ADD; `chainDel` does not need it, other programs read it. */
export async function recordResult(node: TestNode, list: Conflist, call: ChainCall): Promise<void> {
  const record = {
    kind: 'cniCacheV1',
    containerId: call.containerId,
    config: Buffer.from(JSON.stringify(list)).toString('base64'),
    ifName: 'eth0',
    networkName: list.name,
    netns: call.netns,
    capabilityArgs: call.capabilityArgs,
    result: call.cached,
  };
  const write = 'mkdir -p "${1%/*}" && cat > "$1"';
  const file = `/var/lib/cni/results/${list.name}-${String(call.containerId)}-eth0`;
  await node.run(['sh', '-c', write, 'sh', file], { stdin: JSON.stringify(record) });
}

async function callOne(
  node: TestNode,
  command: string,
  {
    list,
    plugin,
    prevResult,
    call,
  }: { list: Conflist; plugin: Conflist['plugins'][number]; prevResult: Json; call: ChainCall },
): Promise<CniAnswer> {
  const { capabilityArgs = {}, cached: _cached, ...rest } = call;
  const wanted = Object.entries(capabilityArgs).filter(([name]) => plugin['capabilities']?.[name] === true);
  const conf = {
    ...plugin,
    cniVersion: list.cniVersion,
    name: list.name,
    ...(wanted.length === 0 ? {} : { runtimeConfig: Object.fromEntries(wanted) }),
    ...(prevResult === undefined ? {} : { prevResult }),
  };
  const answer = await node.cni(command, { ...rest, plugin: plugin['type'], conf });
  if (answer.status !== 0) throw new ChainError(plugin['type'], answer);
  return answer;
}
