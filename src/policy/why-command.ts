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
  readonly request?: AskedRequest | undefined;
}

interface AskedRequest {
  readonly method: string;
  readonly path: string;
  /** `NAMESPACE/NAME` of the certificate. */
  readonly account?: string | undefined;
}

/** Returns the command that explains a flow; undefined for a protocol that it cannot ask about. */
export function whyCommand({ from, to, protocol, port, request }: AskedFlow): string | undefined {
  const option = OPTIONS[protocol];
  if (option === undefined) return undefined;
  const portText = port === undefined ? '' : ` --port ${String(port)}`;
  return `netplugctl policy why ${from} ${to}${option}${portText}${requestOptions(request)}`;
}

function requestOptions(request: AskedRequest | undefined): string {
  if (request === undefined) return '';
  const { method, path, account } = request;
  const options = [
    ['method', method],
    ['path', path],
    ['account', account ?? ''],
  ] as const;
  return options.map(([name, value]) => (value === '' ? '' : ` --${name} ${quoted(value)}`)).join('');
}

/** What clients write reaches a shell when the command is copied. */
function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Returns protocol and port as text, such as `TCP port 80` or `ICMP type 8`. */
export function trafficText({
  protocol,
  port,
  icmp,
  request,
}: Pick<AskedFlow, 'protocol' | 'port' | 'request'> & {
  readonly icmp?: { readonly type: number } | undefined;
}): string {
  if (request !== undefined) return `${request.method} ${request.path} at port ${String(port)}`;
  const portText = port === undefined ? [] : [`port ${String(port)}`];
  return [protocolName(protocol), ...(icmp === undefined ? portText : [`type ${String(icmp.type)}`])].join(' ');
}
