// Known vulnerabilities of what the images contain, as far as the registries of npm and Debian say, and what was not asked.
import { spawnSync } from 'node:child_process';
import { withAptRoot } from './images/apt-root.ts';
import { type DebianArchitecture, parseStanzas, readLock } from './images/debian-packages.ts';
import { DEBIAN_RELEASE } from './images/declared.ts';
import { newerPackages } from './images/newer-packages.ts';

/** Exits with 1 when something is known, 2 when a registry could not be asked. */
const FOUND = 1;
const NOT_ASKED = 2;

const lines: string[] = [];
let status = 0;
reportNpm();
for (const architecture of ['amd64', 'arm64'] as const) reportDebian(architecture);
lines.push(
  'not asked: vulnerabilities of Node.js, Bun and libraries inside them (see the security releases of both)',
  'not asked: vulnerabilities of the Go modules of the standard CNI plugins (govulncheck needs the database of Go)',
  "not asked: vulnerabilities of Debian's packages that have no fixed package yet (Debian's security tracker)",
);
process.stdout.write(lines.map((line) => `report: ${line}\n`).join(''));
process.exitCode = status;

function reportNpm(): void {
  const { stdout, status: code } = spawnSync('npm', ['audit', '--omit=dev', '--json'], { encoding: 'utf8' });
  const audit = parseJson(stdout) as {
    readonly vulnerabilities?: Readonly<Record<string, { readonly severity: string }>>;
    readonly message?: string;
  };
  if (audit.vulnerabilities === undefined) {
    lines.push(
      `not asked: npm's registry about vulnerabilities: ${audit.message ?? `npm audit ended with ${String(code)}`}`,
    );
    status = NOT_ASKED;
    return;
  }
  const found = Object.entries(audit.vulnerabilities);
  for (const [name, { severity }] of found) lines.push(`npm: ${name} has a known vulnerability, severity ${severity}`);
  if (found.length === 0)
    lines.push('npm: no known vulnerability in the packages that are bundled (npm audit --omit=dev)');
  else status ||= FOUND;
}

/** Debian fixes vulnerabilities by newer packages of the same release. */
function reportDebian(architecture: DebianArchitecture): void {
  const locked = readLock().packages[architecture];
  try {
    const offered = withAptRoot({ architecture }, (apt) =>
      parseStanzas(apt.cache(['show', ...locked.map(({ name }) => name)])),
    );
    const newer = newerPackages(locked, offered);
    for (const { name, version, offered: other } of newer)
      lines.push(`debian ${architecture}: ${name} ${version} is replaced by ${other}; run "make images-lock"`);
    if (newer.length === 0)
      lines.push(
        `debian ${architecture}: no newer version of the ${String(locked.length)} packages in ${DEBIAN_RELEASE}, its updates and its security fixes`,
      );
    else status ||= FOUND;
  } catch (cause) {
    lines.push(
      `not asked: Debian's archive of ${DEBIAN_RELEASE} for ${architecture}: ${cause instanceof Error ? (cause.message.split('\n')[0] ?? '') : String(cause)}`,
    );
    status = NOT_ASKED;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
