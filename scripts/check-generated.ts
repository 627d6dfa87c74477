// Pages made from declarations must match them; `--write` brings them up to date.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { VERSION } from '../src/base/version.ts';
import { ERRORS } from '../src/base/error-codes.ts';
import { conflistJsonSchema } from '../src/apps/ctl/lint/conflist-schema.ts';
import { doctorPage } from '../src/apps/ctl/doctor/doctor-page.ts';
import { manualPages, NOTE_NAMES } from '../src/apps/ctl/manual.ts';
import { crdManifestFile } from '../src/install/cluster/definitions/crd-manifests.ts';
import { annotationPoliciesFile, nodePoliciesFile } from '../src/install/cluster/admission/admission-manifests.ts';
import { rbacManifestFile } from '../src/install/cluster/rights/role-manifests.ts';
import { chartFiles } from '../src/install/cluster/chart/chart-files.ts';
import { resourceReference } from '../src/model/resource-reference.ts';
import { anyResourceJsonSchema } from '../src/model/resource-schema.ts';
import { netconfReference } from '../src/config/reference.ts';
import { netconfJsonSchema } from '../src/config/schema.ts';
import { agentEnvFile } from './deb/agent-env.ts';
import { withEnvironmentTables } from './environment-table.ts';
import { operatorManifest } from './monitoring-files.ts';
import { withAlertSections, withMetricTables } from './monitoring-tables.ts';
import { withRequirements } from './requirements-tables.ts';
import { rightsPage } from './rights-page.ts';

const PAGES: Readonly<Record<string, () => string>> = {
  ...Object.fromEntries(
    [
      'docs/netplug.md',
      'docs/netplug-agent.md',
      'docs/controllers.md',
      'docs/netplug-operator.md',
      'docs/monitoring.md',
      'docs/netplugctl/notes/connection.md',
    ].map((file) => [
      file,
      () => withAlertSections(withMetricTables(withEnvironmentTables(readFileSync(file, 'utf8')))),
    ]),
  ),
  'docs/requirements.md': () => withRequirements(readFileSync('docs/requirements.md', 'utf8')),
  'docs/errors.md': errorsPage,
  'docs/doctor.md': doctorPage,
  'docs/netconf.md': netconfReference,
  'docs/resources.md': resourceReference,
  'docs/schema/conflist.schema.json': () => jsonText(conflistJsonSchema()),
  'docs/schema/netconf.schema.json': () => jsonText(netconfJsonSchema()),
  'docs/schema/resources.schema.json': () => jsonText(anyResourceJsonSchema()),
  'manifests/crds.yaml': crdManifestFile,
  'manifests/rbac.yaml': rbacManifestFile,
  'manifests/admission.yaml': annotationPoliciesFile,
  'manifests/node-restriction.yaml': nodePoliciesFile,
  'manifests/monitoring/prometheus-operator.yaml': operatorManifest,
  'packaging/debian/agent.env': agentEnvFile,
  'docs/rights.md': rightsPage,
  ...filesIn('chart/netplug', chartFiles(VERSION)),
  ...filesIn('docs', manual()),
};

const isWriting = process.argv.includes('--write');
for (const [file, render] of Object.entries(PAGES)) {
  const text = render();
  if (existsSync(file) && readFileSync(file, 'utf8') === text) continue;
  if (isWriting) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  } else {
    console.error(`${file} is not what its declaration says: run "npm run docs:write"`);
    process.exitCode = 1;
  }
}

function filesIn(folder: string, files: Readonly<Record<string, string>>): Readonly<Record<string, () => string>> {
  return Object.fromEntries(Object.entries(files).map(([path, text]) => [`${folder}/${path}`, () => text]));
}

/** Reports notes that belong to no command, so that none is lost when a command is renamed. */
function manual(): Readonly<Record<string, string>> {
  const folder = 'docs/netplugctl/notes';
  const lost = readdirSync(folder).filter((file) => !NOTE_NAMES.includes(file.replace(/\.md$/, '')));
  if (lost.length > 0) throw new Error(`no command is called like ${lost.join(', ')} in ${folder}`);
  return manualPages((name) => {
    const file = `${folder}/${name}.md`;
    return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
  });
}

function jsonText(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

function errorsPage(): string {
  const rows = Object.entries(ERRORS).map(
    ([code, { cni, exit, retry, about }]) =>
      `| <a id="${code.replace('/', '-')}"></a>\`${code}\` | ${String(cni)} | ${String(exit)} | ${retry ? 'yes' : 'no'} | ${about} |`,
  );
  return `# Errors

Every refusal and failure of netplug carries one of these codes. The code is a contract; messages may get better.
A runtime sees the CNI number and the code at the end of \`details\`; \`netplugctl\` ends with the exit status.
"Try again" says whether the same call may succeed later without anybody changing anything.

| code | CNI | exit | try again | meaning |
| --- | --- | --- | --- | --- |
${rows.join('\n')}
`;
}
