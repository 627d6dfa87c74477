import { describe } from 'vitest';
import { expectEachCheck } from '../../../../test/support/checks.ts';
import { POLICY_CHECKS, type PolicyFacts } from './policy-checks.ts';

const IN_FORCE: PolicyFacts = { missing: [], areLeftOut: false, listError: undefined };
const missing = ['netplug-notes-on-pods'];

describe('doctor checks of the admission policies', () => {
  expectEachCheck(POLICY_CHECKS, IN_FORCE, { missing: { missing }, 'left-out': { missing, areLeftOut: true } });
});
