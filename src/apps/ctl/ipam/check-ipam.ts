import { attachmentFindings } from './attachment-findings.ts';
import { blockFindings } from './block-findings.ts';
import type { IpamFinding, IpamState } from './finding.ts';
import { tunnelFindings } from './tunnel-findings.ts';

/** Returns every inconsistency in the records and in the kernel of this node. Pure. */
export function checkIpam(state: IpamState): IpamFinding[] {
  return [
    ...state.unreadable.map((message): IpamFinding => ({ kind: 'unreadable-record', subject: message, message })),
    ...blockFindings(state.blocks, state.pools),
    ...attachmentFindings(state),
    ...tunnelFindings(state),
  ];
}

/** Returns the findings of the first read that the second one shows as well; the rest were changes in progress. */
export function confirmed(first: readonly IpamFinding[], second: readonly IpamFinding[]): IpamFinding[] {
  const still = new Set(second.map(identityOf));
  return first.filter((finding) => still.has(identityOf(finding)));
}

function identityOf({ kind, subject, repair }: IpamFinding): string {
  return [kind, subject, repair?.kind === 'release' ? repair.allocation.id : ''].join('\n');
}
