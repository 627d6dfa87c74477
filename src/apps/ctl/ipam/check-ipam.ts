import { attachmentFindings } from './attachment-findings.ts';
import { blockFindings } from './block-findings.ts';
import { delegatedFindings } from './delegated-findings.ts';
import { type IpamFinding, ipamFinding, type IpamState } from './finding.ts';
import { tunnelFindings } from './tunnel-findings.ts';
import { unconnectedFindings } from './unconnected-findings.ts';

/** Returns every inconsistency in the records and in the kernel of this node. Pure. */
export function checkIpam(state: IpamState): IpamFinding[] {
  return [
    ...state.unreadable.map((found) => ipamFinding('unreadable-record', { subject: found, found })),
    ...blockFindings(state.blocks, state.pools),
    ...attachmentFindings(state),
    ...unconnectedFindings(state),
    ...delegatedFindings(state),
    ...tunnelFindings(state),
  ];
}

/** Returns the findings of the first read that the second one shows as well; the rest were changes in progress. */
export function confirmed(first: readonly IpamFinding[], second: readonly IpamFinding[]): IpamFinding[] {
  const still = new Set(second.map(identityOf));
  return first.filter((finding) => still.has(identityOf(finding)));
}

function identityOf({ id, subject, repair }: IpamFinding): string {
  return [id, subject, repair?.kind === 'release' ? repair.allocation.id : ''].join('\n');
}
