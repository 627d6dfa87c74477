import { POLICY_TABLE } from '../policy/ruleset/policy-ruleset.ts';
import { NAT_TABLE } from '../routing/nat-table.ts';
import { POD_TABLE } from '../routing/pod-table.ts';
import { TUNNEL_TABLE } from '../routing/tunnel-table.ts';

/** The names of all nftables tables, of family `inet`, that the agent creates on a host. */
export const PACKET_TABLES: readonly string[] = [NAT_TABLE, POD_TABLE, TUNNEL_TABLE, POLICY_TABLE];

/** Reports whether the table is one of netplug. */
export function isOwnTable({ family, name }: { readonly family: string; readonly name: string }): boolean {
  return family === 'inet' && PACKET_TABLES.includes(name);
}
