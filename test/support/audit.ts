// What accounts have asked the API server for, from its audit log.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeRight } from '../../src/model/right.ts';

export interface Audit {
  /** Flags of the API server that writes it. */
  readonly flags: Readonly<Record<string, string>>;
  /** What the account has asked for so far. */
  of(account: string): Promise<Asked>;
}

export interface Asked {
  /** Each once, as `describeRight` says it. */
  readonly allowed: ReadonlySet<string>;
  /** Likewise. */
  readonly refused: ReadonlySet<string>;
  /**
   * How many requests there were of each that the server did not fail: one that is busy with a new kind is asked again. Lists of one
   * object do not count: they read the version alone, where a watch took long to open.
   */
  readonly counts: ReadonlyMap<string, number>;
}

interface Event {
  readonly auditID: string;
  readonly verb: string;
  readonly requestURI: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly apiGroup?: string; readonly resource: string; readonly subresource?: string };
  readonly annotations?: Readonly<Record<string, string>>;
  readonly responseStatus?: { readonly code?: number };
}

const VERSION_ALONE = /[?&]limit=1(&|$)/;
/** The least of the status codes that say that a request failed. */
const FAILED = 400;

/** Notes who asks for what in a file of the folder, before the answer is sent; of the accounts of one namespace. */
export async function newAudit(dir: string, namespace: string): Promise<Audit> {
  const [policy, log] = [join(dir, 'audit-policy.json'), join(dir, 'audit.log')];
  const rules = [{ level: 'Metadata', userGroups: [`system:serviceaccounts:${namespace}`] }, { level: 'None' }];
  // Noted once, when the answer begins or ends.
  const omitStages = ['RequestReceived'];
  await writeFile(policy, JSON.stringify({ apiVersion: 'audit.k8s.io/v1', kind: 'Policy', rules, omitStages }));
  return {
    flags: { 'audit-policy-file': policy, 'audit-log-path': log, 'audit-log-mode': 'blocking' },
    of: async (account) => {
      const lines = (await readFile(log, 'utf8')).split('\n').filter((line) => line.endsWith('}'));
      const asked = { allowed: new Set<string>(), refused: new Set<string>() };
      // A watch is noted when it begins and when it ends.
      const requests = new Map<string, string>();
      for (const line of lines) {
        // As the API server writes it.
        const {
          auditID,
          verb,
          requestURI,
          user,
          objectRef,
          annotations = {},
          responseStatus,
        } = JSON.parse(line) as Event;
        if (user.username !== `system:serviceaccount:${namespace}:${account}` || objectRef === undefined) continue;
        const { apiGroup: group = '', resource, subresource } = objectRef;
        const path = subresource === undefined ? resource : `${resource}/${subresource}`;
        const isAllowed = annotations['authorization.k8s.io/decision'] === 'allow';
        const right = describeRight({ group, resource: path, verb });
        asked[isAllowed ? 'allowed' : 'refused'].add(right);
        if ((responseStatus?.code ?? 0) < FAILED && !VERSION_ALONE.test(requestURI)) requests.set(auditID, right);
      }
      const byRight = Map.groupBy(requests.values(), (right) => right);
      return { ...asked, counts: new Map([...byRight].map(([right, all]) => [right, all.length])) };
    },
  };
}
