import { PolicyState } from '../../../policy/policy-state.ts';
import { type FileChoice, readInputs } from '../inputs.ts';
import type { Context, Status } from '../ports.ts';
import { explainPlan } from './explain-plan.ts';
import { planChanges, readWrittenChanges } from './planned-changes.ts';
import type { DocumentOutput } from '../common-options.ts';
import { renderDocument } from '../render-document.ts';
import { readKnownDnsCaches } from './read-dns-caches.ts';
import { readNodeEnds } from './read-node-ends.ts';
import { readFlowFiles } from './read-flow-files.ts';
import { withPolicyState } from './read-policy-state.ts';
import { renderPolicyPlan } from './render-policy-plan.ts';

export interface PolicyPlanOptions {
  readonly files: FileChoice;
  readonly namespace: string | undefined;
  readonly verb: 'apply' | 'delete';
  /** Files with flows of nodes; empty for a plan without them. */
  readonly flows: readonly string[];
  readonly output: DocumentOutput;
}

/** Prints what resources of files would cut and open. Returns status 1 when they cut something. @throws resource/invalid, cli/usage */
export async function policyPlan(
  context: Context,
  { files, namespace, verb, flows: flowFiles, output }: PolicyPlanOptions,
): Promise<Status> {
  const written = readWrittenChanges(await readInputs(context, files), namespace);
  const flows = flowFiles.length === 0 ? undefined : await readFlowFiles(flowFiles);
  return withPolicyState(context, async (before, store, records) => {
    const { io, signal } = context;
    const changes = await planChanges(written, verb, { store, records, signal });
    const after = new PolicyState({ guards: 'assumed' });
    after.setLimits(before.limits);
    after.apply([...records, ...changes.map(({ change }) => change)]);
    const nodes = await readNodeEnds(store, before, signal);
    const notes = [...written.notes];
    const caches = await readKnownDnsCaches(context, (why) => notes.push(why));
    const plan = explainPlan({ before, after, changes, nodes, caches, notes, flows });
    io.stdout(renderDocument(plan, output, renderPolicyPlan));
    return plan.cut.length === 0 ? 0 : 1;
  });
}
