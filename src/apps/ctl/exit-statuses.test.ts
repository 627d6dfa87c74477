import { expect, it } from 'vitest';
import { ERRORS } from '../../base/error-codes.ts';
import { EXIT_STATUSES } from './exit-statuses.ts';

it('has a line for the exit status of every error', () => {
  const statuses = new Set(Object.values(ERRORS).map(({ exit }) => exit));
  expect([...statuses].filter((status) => !EXIT_STATUSES.has(status))).toEqual([]);
});
