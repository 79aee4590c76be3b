// Made by `cargo xtask web` out of docs/protocol.schema.json. Not for editing.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        client: (components["schemas"]["client_hello"] | components["schemas"]["client_auth"] | components["schemas"]["client_attach"] | components["schemas"]["client_prompt"] | components["schemas"]["client_abort"] | components["schemas"]["client_answer"] | components["schemas"]["client_resume"] | components["schemas"]["client_detach"] | components["schemas"]["client_ping"]) | components["schemas"]["client_short"];
        client_hello: {
            /** @constant */
            type: "hello";
            /**
             * @description The version that the client speaks.
             * @enum {unknown}
             */
            protocol?: 1 | null;
        };
        client_auth: {
            /** @constant */
            type: "auth";
            token: string;
        };
        client_attach: {
            /** @constant */
            type: "attach";
            session_id?: components["schemas"]["wanted_session"];
            key?: components["schemas"]["wanted_key"];
            agent?: components["schemas"]["wanted_agent"];
            /** @description The last record that the client has; without it, all are told. */
            after?: number | null;
            /**
             * @description Instead of `after`.
             * @enum {unknown}
             */
            from?: "beginning" | "end" | null;
        };
        client_prompt: {
            /** @constant */
            type: "prompt";
            prompt: string;
            client_id?: components["schemas"]["client_id_or_null"];
            session_id?: components["schemas"]["wanted_session"];
            key?: components["schemas"]["wanted_key"];
            agent?: components["schemas"]["wanted_agent"];
        };
        /** @description One prompt, one answer. Members that are not known are ignored. */
        client_short: {
            prompt: string;
            client_id?: components["schemas"]["client_id_or_null"];
            session_id?: components["schemas"]["wanted_session"];
            key?: components["schemas"]["wanted_key"];
            agent?: components["schemas"]["wanted_agent"];
        };
        client_abort: {
            /** @constant */
            type: "abort";
            client_id?: components["schemas"]["client_id_or_null"];
        };
        client_answer: {
            /** @constant */
            type: "answer";
            call_id: string;
            allow: boolean;
            /** @description Told to the model if it is not allowed. */
            reason?: string | null;
        };
        client_resume: {
            /** @constant */
            type: "resume";
        };
        client_detach: {
            /** @constant */
            type: "detach";
        };
        client_ping: {
            /** @constant */
            type: "ping";
        };
        /** @description What a client is told. */
        server: components["schemas"]["server_hello"] | components["schemas"]["server_attached"] | components["schemas"]["server_record"] | components["schemas"]["server_damage"] | components["schemas"]["server_caught_up"] | components["schemas"]["server_accepted"] | components["schemas"]["server_queued"] | components["schemas"]["server_started"] | components["schemas"]["server_answering"] | components["schemas"]["server_delta"] | components["schemas"]["server_notice"] | components["schemas"]["server_tool_started"] | components["schemas"]["server_tool_ended"] | components["schemas"]["server_question"] | components["schemas"]["server_answered"] | components["schemas"]["server_saved"] | components["schemas"]["server_done"] | components["schemas"]["server_failed"] | components["schemas"]["server_aborting"] | components["schemas"]["server_detached"] | components["schemas"]["server_pong"] | components["schemas"]["server_error"];
        server_hello: {
            /** @constant */
            type: "hello";
            /** @constant */
            protocol: 1;
            server: string;
            actor: string;
            agents: [
                {
                    name: string;
                    kind: string;
                },
                ...{
                    name: string;
                    kind: string;
                }[]
            ];
        };
        server_attached: {
            /** @constant */
            type: "attached";
            session_id: components["schemas"]["session_id"];
            agent: string;
            agent_kind: string;
            /** @description The last record that there is. */
            n: components["schemas"]["n_or_null"];
            /** @description The turn that is running. */
            turn: {
                client_id: components["schemas"]["client_id_or_null"];
            } | null;
            /** @description How many prompts wait. */
            queued: number;
            /** @description The last turn, if it never came to its end and is not running. */
            interrupted: {
                /** @description The record of its prompt. */
                n: components["schemas"]["n"];
                client_id: components["schemas"]["client_id_or_null"];
                /** @description Whether it may have done something. */
                touched: boolean;
            } | null;
        };
        server_record: {
            /** @constant */
            type: "record";
            n: components["schemas"]["n"];
            /** @description A line of the transcript as it is in the file (docs/format.md). */
            record: Record<string, unknown>;
        };
        server_damage: {
            /** @constant */
            type: "damage";
            n: components["schemas"]["n"];
            offset: number;
            bytes: number;
        };
        server_caught_up: {
            /** @constant */
            type: "caught_up";
            n: components["schemas"]["n_or_null"];
        };
        server_accepted: {
            /** @constant */
            type: "accepted";
            client_id: components["schemas"]["client_id"];
            session_id: components["schemas"]["session_id"];
            /** @enum {unknown} */
            state: "queued" | "running" | "done" | "failed" | "known";
            /** @description Whether it had been sent before. */
            duplicate: boolean;
            durability: components["schemas"]["durability"];
        };
        server_queued: {
            /** @constant */
            type: "queued";
            client_id: components["schemas"]["client_id"];
            /** @description How many are before it, the running one included. */
            position: number;
        };
        server_started: {
            /** @constant */
            type: "started";
            client_id: components["schemas"]["client_id_or_null"];
        };
        server_answering: {
            /** @constant */
            type: "answering";
        };
        server_delta: {
            /** @constant */
            type: "delta";
            block: number;
            /** @enum {unknown} */
            kind: "text" | "thinking" | "input";
            text: string;
        };
        server_notice: {
            /** @constant */
            type: "notice";
            message: string;
        };
        server_tool_started: {
            /** @constant */
            type: "tool_started";
            call_id: string;
            name: string;
            /** @description The arguments; text if the model sent no JSON. */
            input: unknown;
        };
        server_tool_ended: {
            /** @constant */
            type: "tool_ended";
            call_id: string;
            is_error: boolean;
            ms: number;
        };
        server_question: {
            /** @constant */
            type: "question";
            call_id: string;
            name: string;
            /** @description The arguments; text if the model sent no JSON. */
            input: unknown;
        };
        server_answered: {
            /** @constant */
            type: "answered";
            call_id: string;
            allowed: boolean;
        };
        server_saved: {
            /** @constant */
            type: "saved";
            n: components["schemas"]["n"];
            durability: components["schemas"]["durability"];
        };
        server_done: {
            /** @constant */
            type: "done";
            client_id: components["schemas"]["client_id_or_null"];
            /** @enum {unknown} */
            state: "done" | "aborted" | "out_of_steps";
            n: components["schemas"]["n"];
            /** @description What the model said last. */
            text: string;
            stop_reason: string | null;
            /** @description Of the last call, as the model's maker tells it. */
            usage: Record<string, unknown> | null;
            durability: components["schemas"]["durability"];
        };
        server_failed: {
            /** @constant */
            type: "failed";
            client_id: components["schemas"]["client_id_or_null"];
            error: components["schemas"]["problem"];
        };
        server_aborting: {
            /** @constant */
            type: "aborting";
            /** @description Whether there was a turn to abort. */
            running: boolean;
        };
        server_detached: {
            /** @constant */
            type: "detached";
        };
        server_pong: {
            /** @constant */
            type: "pong";
        };
        server_error: {
            /** @constant */
            type: "error";
            error: components["schemas"]["problem"];
            /** @description Of the prompt that was refused. */
            client_id: components["schemas"]["client_id_or_null"];
        };
        problem: {
            /** @enum {unknown} */
            code: "invalid" | "unauthenticated" | "forbidden" | "not_found" | "method_not_allowed" | "busy" | "conflict" | "too_large" | "unsupported_media" | "too_many" | "timeout" | "moved" | "unavailable" | "model" | "storage" | "internal";
            message: string;
        };
        /** @enum {unknown} */
        durability: "disk" | "remote";
        n: number;
        n_or_null: number | null;
        session_id: string;
        client_id: string;
        client_id_or_null: string | null;
        wanted_session: string | null;
        /** @description `agent:channel:peer`; not together with `session_id`. */
        wanted_key: string | null;
        /** @description A new session with this agent. */
        wanted_agent: string | null;
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
