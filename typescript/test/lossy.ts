/**
 * A program that stands between this package and the real one, and loses things at the moment that a test wants it to.
 *
 * Its plan is a JSON text in `LOSSY_PLAN`. As a child that dies starts anew each time, how often something happened is counted in files.
 */

import { spawn } from 'node:child_process';
import { appendFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Something that is to happen. */
export interface Loss {
  /** Which operation it happens to. */
  operation: string;
  /** `before` the store is told of it, `after` the store answered, after `half` of its entries were kept; or it is `refused`. */
  when: 'before' | 'after' | 'half' | 'refused';
  /** How many are spared first. */
  spared?: number;
  /** To how many it happens. */
  times: number;
}

/** Everything that is to happen. */
export interface Plan {
  /** The real program. */
  program: string;
  /** A folder to count in. */
  folder: string;
  losses: Loss[];
}

interface Asked {
  id: number;
  op: string;
  entries?: unknown[];
}

function main(plan: Plan): void {
  const child = spawn(plan.program, process.argv.slice(2), { stdio: ['pipe', 'pipe', 'inherit'] });
  const doomed = new Set<number>();
  const die = (): void => {
    child.kill('SIGKILL');
    process.kill(process.pid, 'SIGKILL');
  };
  createInterface({ input: process.stdin }).on('line', (line) => {
    const asked = JSON.parse(line) as Asked;
    const loss = next(plan, asked.op);
    if (loss?.when === 'before') {
      die();
      return;
    }
    if (loss?.when === 'refused') {
      process.stdout.write(`${JSON.stringify({ id: asked.id, err: 'not now', code: 'unavailable' })}\n`);
      return;
    }
    if (loss !== undefined) {
      doomed.add(asked.id);
    }
    const entries = asked.entries?.slice(0, Math.ceil(asked.entries.length / 2));
    child.stdin.write(`${loss?.when === 'half' ? JSON.stringify({ ...asked, entries }) : line}\n`);
  }).on('close', () => child.stdin.end());
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { id } = JSON.parse(line) as Asked;
    if (doomed.has(id)) {
      die();
    } else {
      process.stdout.write(`${line}\n`);
    }
  });
  child.on('exit', (code) => {
    process.exitCode = code ?? 1;
  });
}

/** What happens to this one; each loss counts the requests of its operation by itself. */
function next(plan: Plan, operation: string): Loss | undefined {
  const isDue = (loss: Loss, at: number): boolean => {
    if (loss.operation !== operation) {
      return false;
    }
    const counter = join(plan.folder, `loss-${at}`);
    appendFileSync(counter, '.');
    const count = statSync(counter).size - (loss.spared ?? 0);
    return count > 0 && count <= loss.times;
  };
  return plan.losses.filter(isDue)[0];
}

main(JSON.parse(process.env['LOSSY_PLAN'] ?? '') as Plan);
