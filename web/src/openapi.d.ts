// Made by `cargo xtask web` out of docs/openapi.json. Not for editing.
export interface paths {
    "/v1/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the server is well */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who answers */
        get: operations["agents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who is asking, and what there is for them */
        get: operations["me"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Has the browser keep a token, in a cookie that scripts cannot read
         * @description For the page of this server only: `Origin` has to be its own address. The cookie counts together with the header `x-unforget-page: 1`, and for `/ws`. Programs send `Authorization`.
         */
        post: operations["login"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Has the browser forget the token
         * @description For the page of this server only, as `/v1/login` is.
         */
        post: operations["logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Makes a link that logs a browser of the owner in, once
         * @description For the owner of a server that is for its owner alone: with the owner's token, or through the owner's socket.
         */
        post: operations["link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page of the list of sessions */
        get: operations["listSessions"];
        put?: never;
        /** A new session */
        post: operations["createSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One session */
        get: operations["getSession"];
        put?: never;
        post?: never;
        /** Into the trash */
        delete: operations["deleteSession"];
        options?: never;
        head?: never;
        /** Another title, label or time to live */
        patch: operations["describeSession"];
        trace?: never;
    };
    "/v1/sessions/{id}/undelete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Out of the trash */
        post: operations["undeleteSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/records": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a session says, record by record */
        get: operations["listRecords"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The conversation as it would be sent to a model */
        get: operations["listMessages"];
        put?: never;
        /** Adds messages that another program's agent said or heard */
        post: operations["addMessages"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/path": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The records that a conversation is made of */
        get: operations["getPath"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/context": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What fills the context window */
        get: operations["getContext"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/tree": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The branches of a conversation */
        get: operations["getTree"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The checkpoints of a conversation */
        get: operations["listCheckpoints"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A session to be taken elsewhere */
        get: operations["exportSession"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A new session that begins where this one is, or was */
        post: operations["forkSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/rewind": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Goes on behind an earlier record */
        post: operations["rewindSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/edits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Applies edits: undo, redo, rewind, branch, names, pins, title, label
         * @description All edits of a request are appended at once, or none. Each outcome names the edits that take it back.
         */
        post: operations["editSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/checkpoint": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Names a step */
        post: operations["nameCheckpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/branch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Begins a branch */
        post: operations["beginBranch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/pin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Pins the words of a record */
        post: operations["pinWords"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/compact": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes the conversation smaller */
        post: operations["compactSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/abort": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends the turn that is running */
        post: operations["abortTurn"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Goes on with a turn that was interrupted */
        post: operations["resumeTurn"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was said, in any session */
        get: operations["search"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What all sessions took */
        get: operations["usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/entries/append": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Appends entries; they are on the disk when this answers */
        post: operations["entriesAppend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/entries/load": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The entries of a session, or of something beneath it */
        post: operations["entriesLoad"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/entries/read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A page of entries behind a cursor, or null if nothing was ever appended */
        post: operations["entriesRead"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/entries/list_sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The sessions of a project */
        post: operations["entriesListSessions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/entries/list_session_summaries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The sessions of a project with what a list shows */
        post: operations["entriesListSessionSummaries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/entries/delete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Deletes a session with everything beneath it, or one thing beneath it */
        post: operations["entriesDelete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/entries/list_subkeys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What there is beneath a session */
        post: operations["entriesListSubkeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Why something cannot be done: a code for programs, words for people. */
        Problem: {
            error: {
                /** @enum {string} */
                code: "invalid" | "unauthenticated" | "forbidden" | "not_found" | "method_not_allowed" | "busy" | "conflict" | "too_large" | "unsupported_media" | "too_many" | "timeout" | "moved" | "unavailable" | "model" | "storage" | "internal";
                message: string;
            };
        };
        Health: {
            /** @enum {string} */
            status: "ok" | "stopping";
            version: string;
            /** @constant */
            protocol: 1;
        };
        Agent: {
            name: string;
            /** @description `built-in`, `claude-code` */
            kind: string;
        };
        Agents: {
            agents: components["schemas"]["Agent"][];
            /** @description Who answers when nobody is named. */
            default: string;
        };
        Me: {
            /** @description `owner` at a server that is for its owner alone. */
            actor: string;
            /** @description Whether people come in with a token. */
            needs_token: boolean;
            agents: components["schemas"]["Agent"][];
            /** @description Who answers when nobody is named. */
            default: string;
            version: string;
            /** @constant */
            protocol: 1;
        };
        /** @description Either `token` or `link`. */
        Login: {
            /** @description A token, or the owner's. */
            token?: string;
            /** @description The code of a link that the owner was given: what is behind `#link=` in its address. It works once. */
            link?: string;
            /** @description Whether it is kept for 30 days; otherwise until the browser is closed. */
            stay?: boolean;
        } & (unknown | unknown);
        LoggedIn: {
            actor: string;
        };
        /** @description This document. */
        OpenApi: {
            /** @constant */
            openapi: "3.1.0";
        };
        Session: {
            id: string;
            key: string | null;
            label: string | null;
            title: string | null;
            /** Format: date-time */
            created: string | null;
            /** Format: date-time */
            updated: string | null;
            turns: number;
            records: number;
            tokens: number;
            /** @description Dollars; null if a model of it has no price. */
            cost_usd: number | null;
            /** @description The model that answered last. */
            model: string | null;
            /** @description The record that the conversation goes on from. */
            head: number | null;
            /** @description How long it is kept: `30d`, `never`; null for what the settings say. */
            expires: string | null;
            /** @description A person keeps it at the top of the list. */
            pinned: boolean;
            bytes: number;
            /** @description How many places are damaged. */
            damage: number;
            /** @enum {string} */
            state: "ok" | "missing" | "mismatch" | "unreadable" | "deleted";
            /** @description In use by this server, or written by another program. */
            live: boolean;
            /** @description A turn is running or waiting. */
            busy: boolean;
            viewers: number;
        };
        SessionPage: {
            sessions: components["schemas"]["Session"][];
            /** @description The cursor of the next page; null if this is the last. A page that was looked through for a name may be short, or empty. */
            next: string | null;
        };
        /** @description Either `key`, or its parts: without an agent the usual one, without a channel `api`, without a peer one that nobody has. */
        NewSession: {
            /** @description `agent:channel:peer`, `agent:<agent>:<channel>:<direct|group|thread>:<peer>`, or one word, which is a peer. `%` and `:` within a part are written `%25` and `%3A`. */
            key?: string | null;
            agent?: string | null;
            channel?: string | null;
            peer?: string | null;
            label?: string | null;
        };
        Description: {
            title?: string;
            /** @description null or an empty text takes it off. */
            label?: string | null;
            /** @description `30d`, `never`; null for what the settings say. */
            expires?: string | null;
            pinned?: boolean;
        };
        RecordLine: {
            n: number;
            /** @description The record as it is stored, byte for byte. */
            record: Record<string, unknown>;
        };
        DamagedLine: {
            n: number;
            damage: {
                offset: number;
                bytes: number;
            };
        };
        Line: components["schemas"]["RecordLine"] | components["schemas"]["DamagedLine"];
        RecordPage: {
            records: components["schemas"]["Line"][];
            /** @description `after` of the next page; null if this is the last. */
            next: number | null;
        };
        Message: {
            /** @enum {string} */
            role: "user" | "assistant";
            /** @description As the Messages API has it. */
            content: unknown[] | string;
        };
        Repair: {
            n: number;
            kind: string;
            message: string;
        };
        Note: {
            offset: number;
            bytes: number;
            /** @description The line of the file, counted from 1; null if the reader did not begin at the beginning. */
            line: number | null;
            kind: string;
            message: string;
        };
        Messages: {
            session_id: string;
            messages: components["schemas"]["Message"][];
            system: unknown[] | string | null;
            tools: unknown[] | null;
            model: string | null;
            /** @description What had to be put right so that a model accepts it. */
            repairs: components["schemas"]["Repair"][];
            damage: components["schemas"]["Note"][];
            /** @description What is not as a writer leaves it, though everything was read. */
            oddities: components["schemas"]["Note"][];
        };
        Compaction: {
            n: number;
            first_kept: number | null;
            /** @description Tokens before it, estimated. */
            before: number | null;
            after: number | null;
            /** @enum {string|null} */
            by: "model" | "rule" | null;
            /** @description A later record on this way took it back. */
            undone: boolean;
        };
        Damage: {
            /** @description The number that the damaged line should have had. */
            n: number;
            offset: number;
            bytes: number;
            kind: string;
            message: string;
        };
        Way: {
            at: number | null;
            head: number | null;
            /** @description The greatest number in the transcript. */
            last: number | null;
            /** @description First and last number of each run of steps, in the order of the way. */
            ranges: [
                number,
                number
            ][];
            /** @description Those on this way, at most 10,000. */
            compactions: components["schemas"]["Compaction"][];
            /** @description Anywhere in the transcript, at most 1,000 places. */
            damage: components["schemas"]["Damage"][];
            /** @description Records that are no steps: titles, labels, moves of the head and the like; the newest 1,000. */
            notes: number[];
        };
        LargeRecord: {
            n: number;
            kind: string;
            tokens: number;
            /** @description The tool. */
            name: string | null;
        };
        PinnedWords: {
            n: number;
            /** @description Its words, secrets masked. */
            text: string;
        };
        Context: {
            model: string | null;
            /** @description The model's window in tokens; null if it is not known. */
            window: number | null;
            /** @description From here on room is made. */
            limit: number | null;
            tokens: number;
            /** @description Counted by the last call. */
            measured: number;
            /** @description Estimated since. */
            estimated: number;
            /** @description The same in words. */
            provenance: string;
            messages: number;
            /** @description Estimates, scaled so that they add up to `tokens`. */
            parts: {
                system: number;
                tools: number;
                user: number;
                assistant: number;
                thinking: number;
                calls: number;
                results: number;
                images: number;
                summary: number;
            };
            /** @description The largest records in the window. */
            largest: components["schemas"]["LargeRecord"][];
            /** @description What had to be put right so that a model accepts it. */
            repairs: components["schemas"]["Repair"][];
            /** @description What every compaction keeps. */
            pins: components["schemas"]["PinnedWords"][];
            /** @description The first record that is sent word for word; null if nothing before it is left out. */
            cut: number | null;
        };
        Label: {
            name: string;
            /** @enum {string} */
            as: "branch" | "checkpoint";
            to: number | null;
            begun: number | null;
            n: number;
            ms: number | null;
        };
        Branch: {
            tip: number;
            from: number | null;
            first: number | null;
            names: string[];
            records: number;
            turns: number;
            last_ms: number | null;
            words: string | null;
            is_head: boolean;
        };
        Turn: {
            n: number;
            /** @description The turn before it on its way. */
            parent: number | null;
            ms: number | null;
            /** @description Its first 80 characters, secrets masked. */
            words: string;
            /** @description The step that it follows. */
            before: number | null;
            /** @description The last step of what came of it. */
            end: number;
            /** @description How it ended: `done`, `failed`, `aborted`; null if that was not told. */
            state: string | null;
            /** @description How many calls of tools failed in it. */
            errors: number;
        };
        Place: {
            n: number;
            turn: number;
        };
        Tree: {
            head: number | null;
            current: string | null;
            branches: components["schemas"]["Branch"][];
            labels: components["schemas"]["Label"][];
            /** @description All in the transcript, at most the newest 10,000. */
            compactions: number[];
            /** @description What the user said, the newest 2,000. */
            turns: components["schemas"]["Turn"][];
            /** @description Which turn the head, what names stand for and the compactions belong to. */
            places: components["schemas"]["Place"][];
            /** @description Whether there are more turns. */
            more: boolean;
        };
        Checkpoints: {
            checkpoints: components["schemas"]["Label"][];
        };
        Fork: {
            /** @description A record's number, or the name of a branch or checkpoint. */
            at?: number | string | null;
            /** @description `agent:channel:peer`, `agent:<agent>:<channel>:<direct|group|thread>:<peer>`, or one word, which is a peer. `%` and `:` within a part are written `%25` and `%3A`. */
            key?: string | null;
            label?: string | null;
        };
        Forked: {
            id: string;
            key: string;
            from: string;
            at: number | null;
            records: number;
        };
        Rewind: {
            /** @description A record's number, or the name of a branch or checkpoint. */
            to: number | string;
        };
        Rewound: {
            /** @description The record that says so; null if the conversation was there already. */
            n: number | null;
            head: number;
            branch: string | null;
        };
        Checkpoint: {
            /** @description Not a number, and it does not begin with a hyphen. */
            name: string;
            /** @description A record's number, or the name of a branch or checkpoint. */
            at?: number | string | null;
        };
        Checkpointed: {
            name: string;
            to: number;
        };
        NewBranch: {
            /** @description Not a number, and it does not begin with a hyphen. */
            name: string;
            /** @description Where it begins: a record's number, or the name of a branch or checkpoint; the head if it is left out. */
            at?: number | string | null;
        };
        BegunBranch: {
            name: string;
            head: number;
            /** @description The record that gave the name. */
            n: number;
        };
        Pin: {
            n: number;
            pinned: boolean;
        };
        Pinned: {
            n: number;
            pinned: boolean;
        };
        Compact: {
            focus?: string | null;
        };
        Compacted: {
            /** @description The record that says so; null if there is too little to replace. */
            n: number | null;
        };
        Abort: {
            /** @description Only if it is this prompt's turn. */
            client_id?: string | null;
        };
        Aborted: {
            aborted: boolean;
        };
        Resume: Record<string, unknown>;
        Resumed: {
            /** @constant */
            resumed: true;
        };
        Hit: {
            session: string;
            key: string | null;
            title: string | null;
            n: number;
            offset: number;
            /** Format: date-time */
            at: string | null;
            /** @enum {string} */
            role: "user" | "assistant" | "tool_use" | "tool_result" | "summary" | "title" | "label";
            tool: string | null;
            trashed: boolean;
            abandoned: boolean;
            tokens: number;
            snippet: string;
            /** @description What of the snippet matched: from and to, in bytes of UTF-8. */
            marks: [
                number,
                number
            ][];
        };
        Hits: {
            hits: components["schemas"]["Hit"][];
            more: boolean;
            /** @description Transcripts that could not be read. */
            unreadable: number;
        };
        Numbers: {
            turns: number;
            calls: number;
            tools: number;
            input: number;
            output: number;
            cache_write: number;
            cache_read: number;
            /** @description Dollars, as far as prices are known; null if none is. */
            cost_usd: number | null;
        };
        UsageRow: {
            turns: number;
            calls: number;
            tools: number;
            input: number;
            output: number;
            cache_write: number;
            cache_read: number;
            /** @description Dollars, as far as prices are known; null if none is. */
            cost_usd: number | null;
            day?: string;
            week?: string;
            month?: string;
            model?: string;
            agent?: string;
            session?: string;
            key?: string | null;
            title?: string | null;
            trashed?: boolean;
        };
        Usage: {
            /** @enum {string} */
            by: "day" | "week" | "month" | "model" | "agent" | "session";
            rows: components["schemas"]["UsageRow"][];
            total: components["schemas"]["Numbers"];
            /** @description Models without a price, at most 100. */
            unpriced: string[];
            unreadable: number;
        };
        Document: {
            session: components["schemas"]["Session"];
            records: Record<string, unknown>[];
        };
        EntriesKey: {
            project_key: string;
            session_id: string;
            subpath?: string | null;
        };
        EntriesSessionKey: {
            project_key: string;
            session_id: string;
            subpath?: null;
        };
        EntriesAppend: {
            key: components["schemas"]["EntriesKey"];
            /** @description Kept byte for byte; one with a `uuid` that is there already is not appended again. */
            entries: Record<string, unknown>[];
        };
        EntriesKeyed: {
            key: components["schemas"]["EntriesKey"];
        };
        EntriesSessionKeyed: {
            key: components["schemas"]["EntriesSessionKey"];
        };
        EntriesProject: {
            project_key: string;
        };
        EntriesDone: {
            ok: null;
        };
        EntriesLoaded: {
            /** @description null if nothing was ever written. */
            ok: Record<string, unknown>[] | null;
        };
        EntriesSession: {
            session_id: string;
            mtime: number;
        };
        EntriesSessions: {
            ok: components["schemas"]["EntriesSession"][];
        };
        EntriesSummary: {
            session_id: string;
            mtime: number;
            data: Record<string, unknown>;
        };
        EntriesSummaries: {
            ok: components["schemas"]["EntriesSummary"][];
        };
        EntriesSubkeys: {
            ok: string[];
        };
        EntriesReading: {
            key: components["schemas"]["EntriesKey"];
            /** @description What the last page ended with; null for the beginning. */
            cursor?: string | null;
        };
        EntriesRead: {
            entries: Record<string, unknown>[];
            cursor: string;
            /** @description Whether there is another page. */
            more: boolean;
            /** @description Whether this is the beginning, because the cursor is of no use any more. */
            again: boolean;
        };
        EntriesPage: {
            ok: null | components["schemas"]["EntriesRead"];
        };
        EntriesSummariesOf: {
            project_key: string;
            /**
             * @description How the members of `data` are called.
             * @enum {string}
             */
            spelling?: "python" | "typescript";
        };
        EntriesAppended: {
            ok: null;
            /** @enum {string} */
            durability: "disk" | "remote";
        };
        AddedMessages: {
            messages: components["schemas"]["AddedMessage"][];
            /** @description What the caller calls these messages: the same name within a session means the same messages. */
            client_id?: string | null;
        };
        AddedMessage: {
            /** @enum {string} */
            role: "user" | "assistant";
            content: string | [
                {
                    type: string;
                },
                ...{
                    type: string;
                }[]
            ];
        };
        Added: {
            session_id: string;
            /** @description The last record. */
            n: number;
        };
        Link: {
            /** @description What the owner opens in a browser. It logs in the first one who opens it. */
            url: string;
            /**
             * Format: date-time
             * @description Until when it works.
             */
            expires: string;
        };
        /** @description A change of a session that is no turn. */
        Edit: {
            /** @constant */
            edit: "checkpoint";
            /** @description Not a number, no hyphen first, no control characters. */
            name: string;
            /** @description A record's number, the name of a branch or checkpoint, or null for the very beginning. */
            at?: number | string | null;
        } | {
            /** @constant */
            edit: "branch";
            /** @description Not a number, no hyphen first, no control characters. */
            name: string;
            /** @description A record's number, the name of a branch or checkpoint, or null for the very beginning. */
            at?: number | string | null;
        } | {
            /** @constant */
            edit: "drop_name";
            /** @description Not a number, no hyphen first, no control characters. */
            name: string;
        } | {
            /** @constant */
            edit: "switch";
            /** @description A record's number, the name of a branch or checkpoint, or null for the very beginning. */
            to: number | string | null;
        } | {
            /** @constant */
            edit: "rewind";
            /** @description A record's number, the name of a branch or checkpoint, or null for the very beginning. */
            to: number | string | null;
        } | {
            /** @constant */
            edit: "restore";
            /** @description Not a number, no hyphen first, no control characters. */
            name: string;
        } | {
            /** @constant */
            edit: "undo";
        } | {
            /** @constant */
            edit: "redo";
        } | {
            /** @constant */
            edit: "retry";
        } | {
            /** @constant */
            edit: "undo_compaction";
        } | {
            /** @constant */
            edit: "pin";
            n?: number | null;
        } | {
            /** @constant */
            edit: "unpin";
            n: number;
        } | {
            /** @constant */
            edit: "pin_session";
            on: boolean;
        } | {
            /** @constant */
            edit: "label";
            label?: string | null;
        } | {
            /** @constant */
            edit: "title";
            title: string;
        } | {
            /** @constant */
            edit: "expire";
            after?: string | null;
        };
        Edits: {
            edits: components["schemas"]["Edit"][];
        };
        /** @description Where a conversation is. */
        HeadState: {
            head: number | null;
            branch: string | null;
            files?: number;
        };
        /** @description What became of an edit. */
        AppliedEdit: {
            /** @constant */
            change: "named";
            /** @description The last record that it appended; null if everything was so already. */
            record: number | null;
            before: components["schemas"]["HeadState"];
            after: components["schemas"]["HeadState"];
            /** @description The edits that take it back, in their order. */
            inverse: components["schemas"]["Edit"][];
            /** @description Not a number, no hyphen first, no control characters. */
            name: string;
            /** @enum {unknown} */
            kind: "branch" | "checkpoint";
            to: number;
            instead: number | null;
        } | {
            /** @constant */
            change: "dropped";
            /** @description The last record that it appended; null if everything was so already. */
            record: number | null;
            before: components["schemas"]["HeadState"];
            after: components["schemas"]["HeadState"];
            /** @description The edits that take it back, in their order. */
            inverse: components["schemas"]["Edit"][];
            /** @description Not a number, no hyphen first, no control characters. */
            name: string;
        } | {
            /** @constant */
            change: "moved";
            /** @description The last record that it appended; null if everything was so already. */
            record: number | null;
            before: components["schemas"]["HeadState"];
            after: components["schemas"]["HeadState"];
            /** @description The edits that take it back, in their order. */
            inverse: components["schemas"]["Edit"][];
            words?: string;
        } | {
            /** @constant */
            change: "expanded";
            /** @description The last record that it appended; null if everything was so already. */
            record: number | null;
            before: components["schemas"]["HeadState"];
            after: components["schemas"]["HeadState"];
            /** @description The edits that take it back, in their order. */
            inverse: components["schemas"]["Edit"][];
            of: number;
        } | {
            /** @constant */
            change: "pinned";
            /** @description The last record that it appended; null if everything was so already. */
            record: number | null;
            before: components["schemas"]["HeadState"];
            after: components["schemas"]["HeadState"];
            /** @description The edits that take it back, in their order. */
            inverse: components["schemas"]["Edit"][];
            n: number;
            pinned: boolean;
            words?: string;
        } | {
            /** @constant */
            change: "session";
            /** @description The last record that it appended; null if everything was so already. */
            record: number | null;
            before: components["schemas"]["HeadState"];
            after: components["schemas"]["HeadState"];
            /** @description The edits that take it back, in their order. */
            inverse: components["schemas"]["Edit"][];
        };
        AppliedEdits: {
            session_id: string;
            applied: components["schemas"]["AppliedEdit"][];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It answers. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
        };
    };
    agents: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The agents. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Agents"];
                };
            };
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description This document. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenApi"];
                };
            };
        };
    };
    me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Whoever is asking. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
        };
    };
    login: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Login"];
            };
        };
        responses: {
            /** @description Whose token or link it is. `Set-Cookie` keeps the token. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LoggedIn"];
                };
            };
        };
    };
    logout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is forgotten. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    link: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The link. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Link"];
                };
            };
        };
    };
    listSessions: {
        parameters: {
            query?: {
                limit?: number;
                /** @description `next` of the page before, with the same `sort`. */
                cursor?: string;
                /** @description Titles rise, everything else falls. */
                sort?: "updated" | "created" | "title" | "turns" | "tokens" | "bytes";
                agent?: string;
                channel?: string;
                peer?: string;
                /** @description The whole key; not together with its parts. */
                key?: string;
                label?: string;
                state?: "ok" | "live" | "damaged" | "missing" | "mismatch" | "unreadable" | "deleted";
                /** @description Only those that are pinned, or are not. */
                pinned?: boolean;
                /** @description Used at or after this time. */
                since?: string;
                /** @description Not used after this time. */
                until?: string;
                /** @description Part of the title or label. */
                q?: string;
                /** @description Those in the trash instead. */
                deleted?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionPage"];
                };
            };
        };
    };
    createSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NewSession"];
            };
        };
        responses: {
            /** @description It is its key's current one from now on. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
        };
    };
    deleteSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is in the trash. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    describeSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Description"];
            };
        };
        responses: {
            /** @description The session. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
        };
    };
    undeleteSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
        };
    };
    listRecords: {
        parameters: {
            query?: {
                /** @description Those behind this record; from the beginning if it is left out. */
                after?: number;
                limit?: number;
                /** @description Puts large payloads back into their records. */
                payloads?: boolean;
                /** @description Masks what looks like a secret. */
                masked?: boolean;
                /** @description Only records of these types, with commas between them; damage is told in any case. */
                kinds?: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecordPage"];
                };
            };
        };
    };
    listMessages: {
        parameters: {
            query?: {
                /** @description How many tokens it may have. */
                budget?: number;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The messages. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Messages"];
                };
            };
        };
    };
    addMessages: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AddedMessages"];
            };
        };
        responses: {
            /** @description They are on the disk. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Added"];
                };
            };
        };
    };
    getPath: {
        parameters: {
            query?: {
                /** @description Up to here: a record's number, or the name of a branch or checkpoint; the head if it is left out. */
                at?: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The way from the root, in runs of numbers. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Way"];
                };
            };
        };
    };
    getContext: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The window as it would be sent now. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Context"];
                };
            };
        };
    };
    getTree: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The branches and names. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tree"];
                };
            };
        };
    };
    listCheckpoints: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The latest last. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Checkpoints"];
                };
            };
        };
    };
    exportSession: {
        parameters: {
            query?: {
                /** @description Its lines as they are, one document with payloads put back, or a tar archive with everything. */
                format?: "jsonl" | "json" | "bundle";
                /** @description Masks what looks like a secret. */
                redact?: boolean;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                    "application/json": components["schemas"]["Document"];
                    "application/x-tar": string;
                };
            };
        };
    };
    forkSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Fork"];
            };
        };
        responses: {
            /** @description The fork. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Forked"];
                };
            };
        };
    };
    rewindSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Rewind"];
            };
        };
        responses: {
            /** @description Nothing is lost. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rewound"];
                };
            };
        };
    };
    editSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Edits"];
            };
        };
        responses: {
            /** @description What became of each edit, in their order. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppliedEdits"];
                };
            };
        };
    };
    nameCheckpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Checkpoint"];
            };
        };
        responses: {
            /** @description It has that name. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Checkpointed"];
                };
            };
        };
    };
    beginBranch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewBranch"];
            };
        };
        responses: {
            /** @description The conversation is on it. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunBranch"];
                };
            };
        };
    };
    pinWords: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Pin"];
            };
        };
        responses: {
            /** @description Every compaction keeps them, or no longer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pinned"];
                };
            };
        };
    };
    compactSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Compact"];
            };
        };
        responses: {
            /** @description It is done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Compacted"];
                };
            };
        };
    };
    abortTurn: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Abort"];
            };
        };
        responses: {
            /** @description Whether there was one. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Aborted"];
                };
            };
        };
    };
    resumeTurn: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Resume"];
            };
        };
        responses: {
            /** @description It goes on. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Resumed"];
                };
            };
        };
    };
    search: {
        parameters: {
            query: {
                /** @description Words, "a phrase", begin*, this OR that, -without. */
                q: string;
                limit?: number;
                agent?: string;
                channel?: string;
                peer?: string;
                key?: string;
                /** @description One or several, with commas between them. */
                role?: string;
                tool?: string;
                /** @description Said at or after this time. */
                since?: string;
                /** @description Not said after this time. */
                until?: string;
                /** @description Searches the trash, too. */
                trash?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The best hits first; secrets are masked. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Hits"];
                };
            };
        };
    };
    usage: {
        parameters: {
            query?: {
                /** @description Days are those of UTC. */
                by?: "day" | "week" | "month" | "model" | "agent" | "session";
                /** @description Rows by both. */
                and?: "model" | "agent";
                /** @description Used at or after this time. */
                since?: string;
                /** @description Not used after this time. */
                until?: string;
                agent?: string;
                key?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Added up. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Usage"];
                };
            };
        };
    };
    entriesAppend: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EntriesAppend"];
            };
        };
        responses: {
            /** @description Appended. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntriesAppended"];
                };
            };
        };
    };
    entriesLoad: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EntriesKeyed"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntriesLoaded"];
                };
            };
        };
    };
    entriesRead: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EntriesReading"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntriesPage"];
                };
            };
        };
    };
    entriesListSessions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EntriesProject"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntriesSessions"];
                };
            };
        };
    };
    entriesListSessionSummaries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EntriesSummariesOf"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntriesSummaries"];
                };
            };
        };
    };
    entriesDelete: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EntriesKeyed"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntriesDone"];
                };
            };
        };
    };
    entriesListSubkeys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EntriesSessionKeyed"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntriesSubkeys"];
                };
            };
        };
    };
}
