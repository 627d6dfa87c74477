// What real container runtimes need on a test node, whichever they are.
import { chmod, copyFile, mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Conflist } from './chain.ts';
import type { Json, TestNode } from './node.ts';

const CALLS = '/var/log/cni-calls';

/** One call of netplug by a runtime. */
export interface RecordedCall {
  readonly command: string;
  readonly containerId: string;
  readonly netns: string;
  readonly ifName: string;
  readonly args: string;
  readonly conf: Json;
}

/** Writes the list where runtimes look for it. */
export async function installNetwork(node: TestNode, list: Conflist): Promise<void> {
  const path = `/etc/cni/net.d/10-${list.name}.conflist`;
  const { status, stderr } = await node.run(['sh', '-c', `cat > ${path}`], { stdin: JSON.stringify(list) });
  if (status !== 0) throw new Error(stderr);
}

/** Has every call of netplug noted down from now on; `recordedCalls` reads them. */
export async function recordCalls(node: TestNode): Promise<void> {
  const script = [
    '#!/bin/sh',
    'conf=$(cat)',
    'jq -nc --arg command "$CNI_COMMAND" --arg containerId "$CNI_CONTAINERID" --arg netns "$CNI_NETNS" \\',
    '  --arg ifName "$CNI_IFNAME" --arg args "$CNI_ARGS" --argjson conf "${conf:-null}" \\',
    `  '{command: $command, containerId: $containerId, netns: $netns, ifName: $ifName, args: $args, conf: $conf}' >> ${CALLS}`,
    `printf %s "$conf" | /opt/recorded/netplug`,
  ].join('\n');
  const install = [
    'mkdir /opt/recorded',
    `mv ${node.cniPath}/netplug ${node.cniPath}/netplug-standalone /opt/recorded`,
    `cat > ${node.cniPath}/netplug`,
    `chmod 755 ${node.cniPath}/netplug`,
    `: > ${CALLS}`,
  ].join(' && ');
  const { status, stderr } = await node.run(['sh', '-c', install], { stdin: script });
  if (status !== 0) throw new Error(stderr);
}

/** The calls since `recordCalls`, in order, without questions for the version. */
export async function recordedCalls(node: TestNode): Promise<RecordedCall[]> {
  const lines = (await node.exec('cat', CALLS)).split('\n').filter((line) => line !== '');
  return lines.map((line): RecordedCall => JSON.parse(line)).filter(({ command }) => command !== 'VERSION');
}

/** A root file system of busybox alone, with links for some of its programs; returns its folder. */
export async function makeRootfs(
  folder: string,
  applets: readonly string[] = ['sh', 'sleep', 'ip', 'hostname'],
): Promise<string> {
  for (const name of ['bin', 'dev', 'etc', 'proc', 'sys', 'tmp']) await mkdir(join(folder, name), { recursive: true });
  await chmod(join(folder, 'tmp'), 0o1777);
  await copyFile('/bin/busybox', join(folder, 'bin/busybox'));
  for (const applet of applets) await symlink('busybox', join(folder, 'bin', applet));
  return folder;
}
