import type { ErrorCode } from '../../../../base/error-codes.ts';
import type { HostInterface } from '../../../../dataplane/host-network.ts';
import type { NodeName } from '../../../../model/names.ts';
import type { NodeProblem } from '../../../../model/node-report.ts';
import { type Family, formatAddress } from '../../../../net/address.ts';
import type { Cidr } from '../../../../net/cidr.ts';
import { methodWithout } from '../../../../routing/detect-address.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';

const CODE: ErrorCode = 'agent/address-conflict';
const SHOWN_NODES = 3;

/** An address of this node that other nodes publish as well. */
export interface ContestedAddress {
  readonly family: Family;
  readonly own: OwnAddress;
  readonly others: readonly NodeName[];
  /** Whether this node publishes it, because it was first. */
  readonly verdict: 'kept' | 'withheld';
  /** What the node publishes in place of it. */
  readonly standIn: OwnAddress | undefined;
}

export interface ClaimedAddresses {
  /** What the node may publish. */
  readonly addresses: ReadonlyMap<Family, OwnAddress>;
  readonly conflicts: readonly ContestedAddress[];
}

export interface ConflictContext {
  readonly node: NodeName;
  readonly interfaces: readonly HostInterface[];
  readonly pools: readonly Cidr[];
  /** Names the setting behind a variable of the agent, as the installation has it. */
  readonly settingName: (variable: string) => string;
}

/** Returns the conflicts: an error where one leaves the pods of a family without an address of their node. */
export function conflictsOf(
  { addresses, conflicts }: ClaimedAddresses,
  context: ConflictContext,
): readonly NodeProblem[] {
  return conflicts.map((conflict) => {
    const { family } = conflict;
    const isCutOff = !addresses.has(family) && context.pools.some(({ base }) => base.family === family);
    return { code: CODE, severity: isCutOff ? 'error' : 'warning', ...textsOf(conflict, context) };
  });
}

/** Names the conflict, and the ways out that exist: another address of this node, and the removal of a node that is gone. */
function textsOf(
  { family, own, others, verdict, standIn }: ContestedAddress,
  { node, interfaces, pools, settingName }: ConflictContext,
): Required<Pick<NodeProblem, 'text' | 'remedy'>> {
  const address = formatAddress(own.address);
  const more = others.length > SHOWN_NODES ? ` and ${String(others.length - SHOWN_NODES)} more` : '';
  const shown = others.slice(0, SHOWN_NODES).map((name) => `"${name}"`);
  const theirs = `${others.length === 1 ? 'node' : 'nodes'} ${shown.join(', ')}${more}`;
  const kept =
    standIn === undefined ? '' : `; it keeps ${formatAddress(standIn.address)} of interface "${standIn.device}"`;
  const text =
    verdict === 'kept'
      ? `Node "${node}" is not alone with address ${address} of interface "${own.device}": ${theirs} published it later`
      : `Cannot register node "${node}" with address ${address} of interface "${own.device}": ${theirs} ${others.length === 1 ? 'has' : 'have'} it already${kept}`;
  const setting = settingName(family === 4 ? 'NETPLUG_IP' : 'NETPLUG_IP6');
  const method = methodWithout({ ...own, interfaceName: own.device }, { interfaces, pools });
  const example = method === undefined ? '' : `, for example "${method}"`;
  return {
    text,
    remedy: `Give each node an address of its own, or choose another one with ${setting}${example}; remove a node that no longer exists with "netplugctl node remove NAME"`,
  };
}
