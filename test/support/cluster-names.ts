// Names of services within a cluster, for pods that look for an address.
import { join } from 'node:path';
import type { Cluster } from './cluster.ts';
import { program } from './components.ts';

const COLUMNS = 'NS:.metadata.namespace,NAME:.metadata.name,IP:.spec.clusterIP,OTHER:.spec.externalName';

/**
 * One file of dnsmasq for each service. An external name stands for another service, whose address is told at once.
 * What changes replaces what was told before only when dnsmasq is asked to read everything anew.
 */
const FOLLOW = `
cd "$1"
"$2" --kubeconfig="$3" get services --all-namespaces --watch --no-headers --output="custom-columns=$4" |
while read -r namespace name ip other; do
  if [ "$ip" = '<none>' ]; then
    IFS=. read -r target within _ <<END
$other
END
    read -r ip _ < "$within.$target" || continue
  fi
  echo "$ip $name.$namespace.svc.cluster.local" > "$namespace.$name"
  kill -HUP "$(cat ../dnsmasq.pid)"
done`;

/** Serves them where the kubelets send pods for names; ends with the control plane. */
export async function serveNames({ control, api }: Cluster): Promise<void> {
  const dir = join(control.dir, 'names');
  const services = join(dir, 'services');
  await control.exec('mkdir', '-p', services);
  const own = ['--user=root', `--pid-file=${join(dir, 'dnsmasq.pid')}`, '--conf-file=/dev/null'];
  const names = ['--no-resolv', '--no-hosts', '--local=/cluster.local/', `--hostsdir=${services}`];
  await control.start(['dnsmasq', '--keep-in-foreground', ...own, ...names]);
  const kubectl = program('kubectl');
  await control.start(['bash', '-c', FOLLOW, 'follow', services, kubectl, api.kubeconfig, COLUMNS]);
}
