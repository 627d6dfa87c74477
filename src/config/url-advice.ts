/** Returns a suggestion for a URL, a list of URLs, a path or a domain that is not allowed. */
export function adviceOnUrl(found: unknown, key: string): string | undefined {
  if (key === 'kv_endpoints') return adviceOnEndpoints(found);
  if (typeof found !== 'string') return undefined;
  if (key === 'log_file_path' || key === 'orchconfig') return adviceOnPath(found);
  const { host, path } = partsOf(found);
  if (host === '') return undefined;
  if (key === 'kv_discovery_srv') return `write "${host.replace(/:\d+$/, '')}"`;
  if (key === 'kv_authority')
    return `write kv_endpoints as "${found.startsWith('https:') ? 'https' : 'http'}://${host}" instead`;
  const scheme = key === 'orch_api_root' || /:6?443$/.test(host) ? 'https' : 'http';
  return found.includes('://') ? undefined : `write "${scheme}://${host}${path}"`;
}

function adviceOnEndpoints(found: unknown): string | undefined {
  const list: unknown[] = Array.isArray(found) ? found : typeof found === 'string' ? found.split(/[,;\s]+/) : [];
  const texts = list.filter((text) => typeof text === 'string');
  const hosts = texts.map((text) => ({ text, ...partsOf(text) })).filter(({ host }) => host !== '');
  const urls = hosts.map(({ text, host }) => `${text.startsWith('https:') ? 'https' : 'http'}://${host}`);
  const isHttp = hosts.every(({ text }) => !text.includes('://') || /^https?:/.test(text));
  return urls.length === 0 || !isHttp ? undefined : `write "${urls.join(',')}"`;
}

function adviceOnPath(found: string): string | undefined {
  if (found.startsWith('file://')) return `write "${found.slice('file://'.length)}"`;
  return /^[~.]/.test(found) ? undefined : `write "/${found}"`;
}

/** Returns host with port, and path, without user and password; empty texts when the text is not a URL. */
function partsOf(text: string): { host: string; path: string } {
  const [, host = '', path = ''] =
    /^(?:[a-z]+:\/\/)?(?:[^/@\s]*@)?([\w.-]+(?::\d+)?|\[[\da-f:.]+\](?::\d+)?)(\/\S*)?$/i.exec(text) ?? [];
  return { host, path };
}
