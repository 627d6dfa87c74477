import type { Context, Status } from '../ports.ts';
import { noEndpoint } from './connection-ends.ts';
import { explainEndpoints } from './explain-endpoint.ts';
import { type PolicyOutput, renderDocument } from './policy-output.ts';
import { withPolicyState } from './read-policy-state.ts';
import { renderEndpoints } from './render-endpoints.ts';

/** Prints what policies see of a pod, and which of them apply to it. @throws resource/not-found */
export async function runExplainEndpoint(
  context: Context,
  pod: string,
  { output }: { readonly output: PolicyOutput },
): Promise<Status> {
  return withPolicyState(context, async (view) => {
    const endpoints = explainEndpoints(view, pod);
    if (endpoints.length === 0) throw noEndpoint(pod);
    context.io.stdout(renderDocument({ endpoints }, output, renderEndpoints));
    return Promise.resolve(0);
  });
}
