import { expect, it } from 'vitest';
import { ERRORS } from './error-codes.ts';

it("gives each of netplug's own CNI error numbers to one error", () => {
  const own = Object.entries(ERRORS).filter(([, { cni }]) => cni >= 100);
  const byNumber = Map.groupBy(own, ([, { cni }]) => cni);
  expect([...byNumber].filter(([, errors]) => errors.length > 1)).toEqual([]);
});
