import { protocolName } from '../model/protocol.ts';

const OPTIONS: Readonly<Record<number, string>> = {
  1: ' --protocol ICMP',
  17: ' --protocol UDP',
  58: ' --protocol ICMP',
  132: ' --protocol SCTP',
  6: '',
};

interface AskedFlow {
  /** End as `netplugctl policy why` takes it: a pod or an address. */
  readonly from: string;
  readonly to: string;
  /** IANA number. */
  readonly protocol: number;
  readonly port?: number | undefined;
}

/** Returns the command that explains a flow; undefined for a protocol that it cannot ask about. */
export function whyCommand({ from, to, protocol, port }: AskedFlow): string | undefined {
  const option = OPTIONS[protocol];
  if (option === undefined) return undefined;
  return `netplugctl policy why ${from} ${to}${option}${port === undefined ? '' : ` --port ${String(port)}`}`;
}

/** Returns protocol and port as text, such as `TCP port 80` or `ICMP type 8`. */
export function trafficText({
  protocol,
  port,
  icmp,
}: Pick<AskedFlow, 'protocol' | 'port'> & { readonly icmp?: { readonly type: number } | undefined }): string {
  const portText = port === undefined ? [] : [`port ${String(port)}`];
  return [protocolName(protocol), ...(icmp === undefined ? portText : [`type ${String(icmp.type)}`])].join(' ');
}
