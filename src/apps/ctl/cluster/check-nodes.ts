import { NetplugError } from '../../../base/errors.ts';
import { visibleText } from '../../../base/visible-text.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { referenceOf } from '../../../kube/objects/reference.ts';
import { firstLine, type PodRun, removePods, runPods } from './node-pods.ts';

/** Runs a pod on each node that looks whether the node is fit, shows what it warns of, and removes it. @throws install/refused naming what is not */
export async function checkNodes(run: PodRun, pods: readonly Manifest[]): Promise<void> {
  const states = await runPods(run, { pods, until: 'succeeded', what: 'checks' });
  await removePods(run, pods.map(referenceOf));
  for (const { node, message } of states)
    for (const line of message?.split('\n') ?? []) run.onProgress(`${node}: ${visibleText(line)}`);
  const failed = states.filter(({ phase }) => phase === 'failed');
  if (failed.length === 0) return;
  const lines = failed.flatMap(({ node, reason = '', output = reason }) =>
    output.split('\n').map((line) => `\n  ${node}: ${line}`),
  );
  throw new NetplugError(
    'install/refused',
    `Cannot install netplug: ${String(failed.length)} nodes are not fit for it${lines.join('')}`,
    {
      hint: 'Correct what is listed for each node, and run the command again',
      facts: { nodes: failed.map(({ node }) => node), first: firstLine(failed[0]?.output ?? '') },
    },
  );
}
