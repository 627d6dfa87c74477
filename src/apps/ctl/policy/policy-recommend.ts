import { visibleText } from '../../../base/visible-text.ts';
import { NetplugError } from '../../../base/errors.ts';
import { recommendPolicies, type RecommendedKind } from '../../../policy/reach/recommend-policies.ts';
import type { Context, Status } from '../ports.ts';
import { renderYaml } from '../resources/output/render.ts';
import { askFlows } from './ask-flows.ts';
import { readFlowFiles } from './read-flow-files.ts';
import { withPolicyState } from './read-policy-state.ts';

const SINCE_SECONDS = 3600;

export interface PolicyRecommendOptions {
  readonly namespace: string;
  readonly kind: RecommendedKind;
  /** Files with flows of nodes; empty asks the agent of this node. */
  readonly flows: readonly string[];
  readonly socket: string | undefined;
}

/** Prints policies that allow the flows seen, with what they generalize as comments. @throws resource/not-found */
export async function policyRecommend(
  context: Context,
  { namespace, kind, flows: files, socket }: PolicyRecommendOptions,
): Promise<Status> {
  const question = { verdicts: ['allowed' as const], sinceSeconds: SINCE_SECONDS };
  const flows = files.length > 0 ? await readFlowFiles(files) : (await askFlows(context, { socket, question })).flows;
  return withPolicyState(context, async (view) => {
    const { policies, notes } = recommendPolicies(view, { namespace, flows, kind });
    if (policies.length === 0) {
      throw new NetplugError(
        'resource/not-found',
        `Cannot recommend policies for namespace "${namespace}": no pod with labels is in it`,
        {
          hint: 'Run "netplugctl get workloadendpoints -A"',
        },
      );
    }
    // Notes hold names and labels of users: a line each.
    const comments = notes.map((note) => `# ${visibleText(note)}\n`);
    context.io.stdout([...comments, policies.map((policy) => renderYaml(policy)).join('---\n')].join(''));
    return Promise.resolve(0);
  });
}
