import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { endpointName } from './workload-endpoint.ts';

// No name of the orchestrator begins or ends with `-`.
const part = fc.stringMatching(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);

/** The parts that a name was joined of. */
function partsOf(name: string): readonly string[] {
  return name
    .replaceAll('--', '\0')
    .split('-')
    .map((each) => each.replaceAll('\0', '-'));
}

describe('the name of an endpoint', () => {
  it('has the parts that were joined, so that different endpoints have different names', () => {
    fc.assert(
      fc.property(fc.record({ node: part, orchestrator: part, workload: part, endpoint: part }), (parts) => {
        const { node, orchestrator, workload, endpoint } = parts;
        expect(partsOf(endpointName(parts))).toEqual([node, orchestrator, workload, endpoint]);
      }),
    );
  });
});
