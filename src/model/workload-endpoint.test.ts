import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { endpointName, parseEndpointName } from './workload-endpoint.ts';

// No name of the orchestrator begins or ends with `-`.
const part = fc.stringMatching(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);

describe('the name of an endpoint', () => {
  it('parses to the parts that were joined', () => {
    fc.assert(
      fc.property(fc.record({ node: part, orchestrator: part, workload: part, endpoint: part }), (parts) => {
        expect(parseEndpointName(endpointName(parts))).toEqual(parts);
      }),
    );
  });

  it('has four parts', () => {
    expect(['', 'a', 'a-b-c', 'a-b-c-d-e', 'a--b-c-d'].map(parseEndpointName)).toEqual(Array(5).fill(undefined));
  });
});
