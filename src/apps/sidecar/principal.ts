import type { Account } from '../../policy/resolved-policy.ts';

/** `spiffe://TRUST/ns/NAMESPACE/sa/NAME`, as Istio has it. */
const SPIFFE = /^spiffe:\/\/([^/]+)\/ns\/([^/]+)\/sa\/([^/]+)$/;

/** Returns the account that a certificate names; undefined for one that names none, or is not of a trusted domain. */
export function accountOf(principal: string, trustDomains: readonly string[]): Account | undefined {
  const [, domain = '', namespace, name] = SPIFFE.exec(principal) ?? [];
  if (namespace === undefined || name === undefined || !trustDomains.includes(domain)) return undefined;
  return { namespace, name };
}
