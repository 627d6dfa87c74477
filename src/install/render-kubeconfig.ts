import { never } from '../base/errors.ts';

/** Credentials of the plugin for the Kubernetes API; paths are those of the host. */
export type OrchUser =
  | { readonly by: 'token-file'; readonly path: string }
  | { readonly by: 'token'; readonly token: string }
  | { readonly by: 'certificate'; readonly certFile: string; readonly keyFile: string };

export interface KubeconfigOptions {
  readonly server: string;
  /** PEM; undefined trusts the roots of the system. */
  readonly caPem: string | undefined;
  readonly user: OrchUser;
}

/** Returns a kubeconfig as JSON, which is also YAML. Pure. */
export function renderKubeconfig({ server, caPem, user }: KubeconfigOptions): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'cluster',
        cluster: {
          server,
          ...(caPem === undefined ? {} : { 'certificate-authority-data': Buffer.from(caPem).toString('base64') }),
        },
      },
    ],
    users: [{ name: 'netplug', user: credentials(user) }],
    contexts: [{ name: 'netplug', context: { cluster: 'cluster', user: 'netplug' } }],
    'current-context': 'netplug',
  };
}

function credentials(user: OrchUser): object {
  switch (user.by) {
    case 'token-file':
      return { tokenFile: user.path };
    case 'token':
      return { token: user.token };
    case 'certificate':
      return { 'client-certificate': user.certFile, 'client-key': user.keyFile };
    default:
      return never(user);
  }
}
