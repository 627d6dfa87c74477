import { type ShownCredential, type CredentialFacts, gatherCredentials } from './credential-facts.ts';
import type { Check } from '../../../checks/check.ts';
import { BIND_TOKEN } from '../../../kube/token-binding.ts';
import { topic } from './topic.ts';

const MS_PER_DAY = 86_400_000;
const MS_PER_HOUR = 3_600_000;
const SOON_DAYS = 30;
const START_AGENT = 'Start netplug-agent on this node, which renews the token, and see its log and /readyz';

export const CREDENTIAL_CHECKS: readonly Check<CredentialFacts>[] = [
  {
    id: 'credentials/unusable',
    severity: 'error',
    expected: 'readable files of keys, certificates and tokens',
    remedy: 'Correct the file, or its permissions',
    judge: ({ unusable }) => unusable.map((found) => found),
  },
  {
    id: 'credentials/expired',
    severity: 'error',
    expected: 'certificates and tokens that are valid',
    judge: ({ credentials, nowMs }) =>
      ending(credentials)
        .filter(({ validToMs }) => validToMs <= nowMs)
        .map((credential) => ({
          found: `${credential.what} expired on ${moment(credential)}`,
          remedy: credential.renewedBy === 'agent' ? START_AGENT : 'Renew it; netplug reloads changed files',
        })),
  },
  {
    id: 'credentials/expire-soon',
    severity: 'warning',
    expected: `certificates and tokens that stay valid for ${String(SOON_DAYS)} days or a third of their lifetime; an hour for the token that the agent renews`,
    judge: ({ credentials, nowMs }) =>
      ending(credentials)
        .filter((credential) => credential.validToMs > nowMs && isLate(credential, nowMs))
        .map((credential) => {
          const { what, validToMs, renewedBy } = credential;
          const left = validToMs - nowMs;
          const when = renewedBy === 'agent' ? minutes(left) : `${String(Math.floor(left / MS_PER_DAY))} days`;
          const remedy = renewedBy === 'agent' ? START_AGENT : 'Renew it in time';
          return { found: `${what} expires on ${moment(credential)}, in ${when}`, remedy };
        }),
  },
  {
    id: 'credentials/not-yet-valid',
    severity: 'error',
    expected: 'certificates whose validity has begun',
    remedy: 'Check the clock of this machine',
    judge: ({ credentials, nowMs }) =>
      credentials.flatMap(({ what, validFromMs }) =>
        validFromMs === undefined || validFromMs <= nowMs ? [] : [`${what} is valid from ${day(validFromMs)}`],
      ),
  },
  {
    id: 'credentials/unbound',
    severity: 'warning',
    expected: 'tokens of the plugin and the agent that are bound to the node (store/unbound-token)',
    remedy: BIND_TOKEN,
    judge: ({ credentials }) =>
      credentials
        .filter(({ isUnbound }) => isUnbound === true)
        .map(({ what }) => `the ${what} is bound to no node: the admission policies refuse its writes`),
  },
  {
    id: 'credentials/wrong-key',
    severity: 'error',
    expected: 'the private key of the certificate',
    remedy: 'Install the private key of the certificate',
    judge: ({ credentials }) =>
      credentials
        .filter(({ isKeyOfAnother }) => isKeyOfAnother === true)
        .map(({ what }) => `the private key does not match the ${what}`),
  },
];

export const CREDENTIALS = topic({
  area: 'credentials',
  scope: 'cluster',
  gather: gatherCredentials,
  measure: ({ credentials }) => {
    const first = ending(credentials).sort((a, b) => a.validToMs - b.validToMs)[0];
    return first === undefined ? [] : [`first to expire on ${day(first.validToMs)}: ${first.what}`];
  },
  checks: CREDENTIAL_CHECKS,
});

function ending(credentials: readonly ShownCredential[]): (ShownCredential & { readonly validToMs: number })[] {
  return credentials.flatMap((each) => (each.validToMs === undefined ? [] : [{ ...each, validToMs: each.validToMs }]));
}

/** Reports whether renewal is overdue: 30 days before expiry, or in the last third of a shorter lifetime; an hour for tokens of the agent. */
function isLate(
  { validFromMs, validToMs, renewedBy }: ShownCredential & { readonly validToMs: number },
  nowMs: number,
): boolean {
  if (renewedBy === 'kubelet') return false;
  // The agent renews a token of a day when half of it is left.
  if (renewedBy === 'agent') return validToMs - nowMs < MS_PER_HOUR;
  const lifeMs = validFromMs === undefined ? Infinity : validToMs - validFromMs;
  return validToMs - nowMs < Math.min(SOON_DAYS * MS_PER_DAY, lifeMs / 3);
}

/** Tokens of the plugin last for hours. */
function moment({ validToMs, renewedBy }: ShownCredential & { readonly validToMs: number }): string {
  return renewedBy === 'agent' ? new Date(validToMs).toISOString() : day(validToMs);
}

function minutes(ms: number): string {
  return `${String(Math.floor(ms / 60_000))} minutes`;
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
