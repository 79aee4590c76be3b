/**
 * That the class is what the Claude Agent SDK asks for; the compiler is the judge.
 */

import type { SessionStore } from '@anthropic-ai/claude-agent-sdk';
import type { UnforgetSessionStore } from 'unforget';

type IsAssignable<From, To> = [From] extends [To] ? true : false;
type Parameters1<F> = F extends (...parameters: infer P) => unknown ? P : never;

/** The store fits. */
export const isSessionStore: IsAssignable<UnforgetSessionStore, SessionStore> = true;

/** It has every method, also those that a store may do without. */
export const hasEverything: IsAssignable<UnforgetSessionStore, Required<SessionStore>> = true;

/** Methods are compared loosely by the compiler; their parameters are compared here. */
export const takesEverything: {
  [Name in keyof SessionStore]-?: IsAssignable<Parameters1<Required<SessionStore>[Name]>, Parameters1<UnforgetSessionStore[Name]>>;
} = { append: true, load: true, listSessions: true, listSessionSummaries: true, delete: true, listSubkeys: true };
