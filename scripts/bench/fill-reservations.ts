// Addresses taken in host-local: one file each, as it writes them.
import type { TestNode } from '../../test/support/node.ts';

export interface Reservations {
  readonly network: string;
  /** How many addresses to reserve in total. */
  readonly count: number;
}

const FIRST_SUBNET = 100;
const PER_SUBNET = 250;

/** Takes the same addresses each time, far from the beginning of the range. */
export async function fillReservations(node: TestNode, { network, count }: Reservations): Promise<void> {
  const addresses = Array.from({ length: count }, (_, index) => {
    const subnet = FIRST_SUBNET + Math.floor(index / PER_SUBNET);
    return `10.66.${String(subnet)}.${String(1 + (index % PER_SUBNET))}`;
  });
  const folder = `/var/lib/cni/networks/${network}`;
  const script = [
    `mkdir -p ${folder} && cd ${folder}`,
    String.raw`while read -r address; do printf 'fill-%s\r\neth0' "$address" > "$address" || exit 1; done`,
  ].join('\n');
  const stdin = addresses.map((address) => `${address}\n`).join('');
  const { status, stderr } = await node.run(['sh', '-c', script], { stdin });
  if (status !== 0) throw new Error(stderr);
}
