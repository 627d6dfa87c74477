import { attachmentFindings } from './attachment-findings.ts';
import { blockFindings } from './block-findings.ts';
import type { IpamFinding, IpamState } from './finding.ts';
import { tunnelFindings } from './tunnel-findings.ts';

/** Everything in the records, and on this node in the kernel, that does not fit together. Pure. */
export function checkIpam(state: IpamState): IpamFinding[] {
  return [
    ...state.unreadable.map((message): IpamFinding => ({ kind: 'unreadable-record', subject: message, message })),
    ...blockFindings(state.blocks, state.pools),
    ...attachmentFindings(state),
    ...tunnelFindings(state),
  ];
}

/** Those findings of the first look that a second one still shows: the others were changes under way. */
export function confirmed(first: readonly IpamFinding[], second: readonly IpamFinding[]): IpamFinding[] {
  const still = new Set(second.map(identityOf));
  return first.filter((finding) => still.has(identityOf(finding)));
}

function identityOf({ kind, subject, repair }: IpamFinding): string {
  return [kind, subject, repair?.kind === 'release' ? repair.allocation.id : ''].join('\n');
}
