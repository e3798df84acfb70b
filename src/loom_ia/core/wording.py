"""What the engine tells the model, in the language of the configuration, never the process's."""

from __future__ import annotations

from typing import Literal

Language = Literal["fr", "en"]

_SENTENCES: dict[str, tuple[str, str]] = {
    "unknown_tool": (
        "L'outil {name} n'existe pas. Outils disponibles : {names}.",
        "There is no tool {name}. Available tools: {names}.",
    ),
    "malformed": (
        (
            "Arguments illisibles ou coupés : ce n'est pas un objet JSON complet. Non exécuté. "
            "Refais l'appel, plus court si ta réponse a été coupée."
        ),
        (
            "Unreadable or cut arguments: not a whole JSON object. Not executed. "
            "Make the call again, shorter if your answer was cut."
        ),
    ),
    "empty": ("(vide)", "(empty)"),
    "limit": (
        "Non exécuté : la limite de {limit} appels d'outils est atteinte.",
        "Not executed: the limit of {limit} tool calls is reached.",
    ),
    "not_executed": (
        "Non exécuté : c'est la dernière réponse, sans outils.",
        "Not executed: this is the last answer, without tools.",
    ),
    "unknown_outcome": (
        (
            "Issue inconnue : l'appel est parti et personne ne sait s'il a agi ({reason}). "
            "Ne le refais pas ; dis à l'utilisateur de vérifier."
        ),
        (
            "Outcome unknown: the call left and nobody knows whether it acted ({reason}). "
            "Do not make it again; tell the user to check."
        ),
    ),
    "doubtful": (
        (
            "Issue inconnue : le même appel est déjà parti et personne ne sait s'il a agi. "
            "Il n'est pas relancé ; dis à l'utilisateur de vérifier."
        ),
        (
            "Outcome unknown: the same call already left and nobody knows whether it acted. It is "
            "not launched again; tell the user to check."
        ),
    ),
    "doubtful_question": (
        "le même appel est déjà parti et personne ne sait s'il a agi",
        "the same call already left and nobody knows whether it acted",
    ),
    "key_conflict": (
        (
            "Non exécuté : la clé d'idempotence {key} désigne déjà une autre action, avec d'autres "
            "arguments. Vérifie-les."
        ),
        (
            "Not executed: the idempotency key {key} already stands for another action, with other "
            "arguments. Check them."
        ),
    ),
    "key_in_progress": (
        (
            "Non exécuté : la même action, sous la clé d'idempotence {key}, est déjà en cours. "
            "Ne la refais pas."
        ),
        (
            "Not executed: the same action, under the idempotency key {key}, is already in "
            "progress. Do not make it again."
        ),
    ),
    "key_unknown": (
        (
            "Issue inconnue : la même action, sous la clé d'idempotence {key}, est déjà partie et "
            "personne ne sait si elle a abouti. Elle n'est pas relancée ; dis à l'utilisateur de "
            "vérifier."
        ),
        (
            "Outcome unknown: the same action, under the idempotency key {key}, already left and "
            "nobody knows whether it was done. It is not launched again; tell the user to check."
        ),
    ),
    "key_invalid": (
        "Non exécuté : ces arguments ne donnent pas de clé d'idempotence ({what}).",
        "Not executed: these arguments give no idempotency key ({what}).",
    ),
    "recalled": (
        "[Déjà fait, sous la clé d'idempotence {key}. Voici le premier résultat.]",
        "[Already done, under the idempotency key {key}. This is the first result.]",
    ),
    "timed_out": (
        "L'outil n'a pas répondu en {seconds} s.",
        "The tool did not answer within {seconds} s.",
    ),
    "denied": (
        "Refusé par une règle. Motif : {reason}",
        "Refused by a rule. Reason: {reason}",
    ),
    "policy_broken": (
        "la règle {policy} n'a pas pu se prononcer ({what})",
        "the rule {policy} could not decide ({what})",
    ),
    "policy_arguments": (
        "la règle {policy} a changé les arguments, et ils ne vont plus : {problem}",
        "the rule {policy} changed the arguments, and they no longer fit: {problem}",
    ),
    "policy_unsettled": (
        "la règle {policy} change encore les arguments à la dernière vérification",
        "the rule {policy} still changes the arguments at the last check",
    ),
    "repair": (
        (
            "Ta réponse n'est pas acceptée. Ce qui ne va pas :\n{diagnosis}\n"
            "Corrige et renvoie la réponse complète, sans rien d'autre."
        ),
        (
            "Your answer is not accepted. What is wrong:\n{diagnosis}\n"
            "Correct it and send the whole answer again, and nothing else."
        ),
    ),
    "set_aside": (
        "Non exécuté : la réponse qui le demandait n'est pas acceptée.",
        "Not executed: the answer that asked for it is not accepted.",
    ),
    "not_alone": (
        "appelé avec d'autres ({others}) : sa sortie n'est pas la réponse finale",
        "called beside others ({others}): its output is not the final answer",
    ),
    "use_a_tool": ("appelle d'abord un outil", "first call a tool"),
    "use_one_of": (
        "appelle d'abord un de ces outils : {names}",
        "first call one of these tools: {names}",
    ),
    "withheld": (
        "Résultat écarté par une règle. Motif : {reason}",
        "Result withheld by a rule. Reason: {reason}",
    ),
    "stopped": (
        "Une règle arrête les appels. Motif : {diagnosis}",
        "A rule stops the calls. Reason: {diagnosis}",
    ),
    "misformed": (
        "L'outil a répondu, et sa réponse n'a pas la forme attendue : {diagnosis}",
        "The tool answered, and its answer does not have the expected form: {diagnosis}",
    ),
    "ungrounded": (
        (
            "ces éléments ne figurent dans aucune source ({looked}) : {items}. "
            "Reprends-les tels qu'une source les donne, fais-les calculer par un outil, "
            "ou retire-les."
        ),
        (
            "no source ({looked}) has these items: {items}. "
            "Write them as a source gives them, have a tool compute them, or remove them."
        ),
    ),
    "ungrounded_item": ("{kind} «{text}»", "{kind} «{text}»"),
    "ungrounded_closest": (" (au plus près : «{closest}»)", " (closest: «{closest}»)"),
    "ungrounded_computed": (
        " (c'est {computed}, qu'aucun outil n'a calculé)",
        " (that is {computed}, which no tool computed)",
    ),
    "source_request": ("la demande", "the request"),
    "source_tool": ("le résultat de {tool}", "the result of {tool}"),
    "source_history": ("la conversation", "the conversation"),
    "source_values": ("les valeurs déclarées", "the declared values"),
    "source_context": ("le contexte de l'appelant", "the caller's context"),
    "item_amount": ("montant", "amount"),
    "item_date": ("date", "date"),
    "item_percentage": ("pourcentage", "percentage"),
    "item_reference": ("référence", "reference"),
    "item_email": ("adresse", "address"),
    "item_phone": ("téléphone", "telephone"),
    "item_iban": ("IBAN", "IBAN"),
    "item_number": ("nombre", "number"),
    "not_again": (
        "{told} Elle n'est pas relancée : {reason}",
        "{told} It is not launched again: {reason}",
    ),
    "rejected": (
        "Refusé par un humain. Motif : {reason}",
        "Rejected by a human. Reason: {reason}",
    ),
    "rejected_bare": ("Refusé par un humain.", "Rejected by a human."),
    "rejected_before": (
        "Un humain a déjà refusé ce même appel ; il n'est pas demandé à nouveau.",
        "A human already rejected this same call; it is not asked about again.",
    ),
    "rejected_again": (
        "un humain a refusé de la relancer.",
        "a human refused to launch it again.",
    ),
    "corrected": (
        "[Arguments corrigés par {by} avant l'appel : {changes}]",
        "[Arguments corrected by {by} before the call: {changes}]",
    ),
    "removed": ("retiré", "removed"),
    "undecided": ("personne n'a tranché à temps.", "nobody decided in time."),
    "happened": (
        "Vérifié par un humain : l'appel a bien agi. {reason}",
        "Checked by a human: the call did act. {reason}",
    ),
    "settled": (
        "Vérifié auprès du système : l'appel a bien agi. {evidence}",
        "Checked with the system: the call did act. {evidence}",
    ),
    "did_not_happen": (
        "Vérifié par un humain : l'appel n'a pas agi. {reason}",
        "Checked by a human: the call did not act. {reason}",
    ),
    "expired": (
        "Personne n'a tranché à temps : l'appel n'est pas parti.",
        "Nobody decided in time: the call did not leave.",
    ),
    "interrupted": (
        "Interrompu avant d'avoir un résultat ; on ne sait pas si l'appel a agi.",
        "Interrupted before it had a result; nobody knows whether the call acted.",
    ),
    "never_left": (
        "Non exécuté : le traitement s'est arrêté avant cet appel.",
        "Not executed: the run stopped before this call.",
    ),
    "mention": (
        "[Fichier joint que tu ne peux pas lire : {name}, {media_type}]",
        "[Attached file that you cannot read: {name}, {media_type}]",
    ),
    "withdrawn": (
        (
            "Non exécuté : la définition de {name} a changé depuis le début de ce traitement ; "
            "l'outil est retiré jusqu'à ce que quelqu'un l'accepte."
        ),
        (
            "Not executed: the definition of {name} changed since this run was given it; "
            "the tool is withdrawn until someone accepts it."
        ),
    ),
    "not_sent": (
        "Non exécuté : le serveur {source} est injoignable ({reason}).",
        "Not executed: server {source} cannot be reached ({reason}).",
    ),
    "too_large": (
        "L'appel a eu lieu, mais sa réponse dépasse {limit} octets et n'a pas été lue.",
        "The call took place, but its answer exceeds {limit} bytes and was not read.",
    ),
    "asks": (
        "Le serveur {source} pose une question avant de répondre ; elle n'a pas été transmise.",
        "Server {source} asks a question before it answers; it was not passed on.",
    ),
    "cut": (
        "[Coupé : {shown} caractères montrés sur {total}.]",
        "[Cut: {shown} characters shown of {total}.]",
    ),
    "go_on": ("Continue.", "Go on."),
    "fallback": (
        "Je n'ai pas pu terminer cette demande.",
        "I could not finish this request.",
    ),
    "final": (
        "Réponds maintenant, sans appeler d'outil, avec ce que tu sais.",
        "Answer now, without calling any tool, with what you know.",
    ),
    "run_failed": (
        "[Le traitement de la demande précédente a échoué avant la réponse.]",
        "[The previous request failed before it was answered.]",
    ),
    "run_cancelled": (
        "[La demande précédente a été arrêtée avant la réponse.]",
        "[The previous request was stopped before it was answered.]",
    ),
    "run_waiting": (
        "[La demande précédente attend encore une décision humaine.]",
        "[The previous request still waits for a human's decision.]",
    ),
}

_FORM: dict[str, tuple[str, str]] = {
    "form_root": ("la réponse", "the answer"),
    "form_time": (
        "la forme n'a pas pu être vérifiée ; réponds plus simplement",
        "the form could not be checked; answer more simply",
    ),
    "form_more": ("et {count} autre(s) problème(s)", "and {count} more problem(s)"),
    "form_no_json": (
        "aucun JSON dans la réponse ; donne une valeur JSON conforme à ce schéma : {schema}",
        "no JSON in the answer; give a JSON value that fits this schema: {schema}",
    ),
    "form_no_json_bare": (
        "aucun JSON dans la réponse ; donne la valeur JSON demandée",
        "no JSON in the answer; give the JSON value that is asked for",
    ),
    "form_max_chars": (
        "{count} caractères ; au plus {limit}",
        "{count} characters; at most {limit}",
    ),
    "form_must_match": (
        "rien n'y correspond à l'expression {pattern}",
        "nothing in it matches the expression {pattern}",
    ),
    "form_must_not_match": (
        "un passage correspond à l'expression {pattern}, qui ne doit pas s'y trouver",
        "a part of it matches the expression {pattern}, which must not be found there",
    ),
    "form_pattern_time": (
        "l'expression {pattern} n'a pas pu être vérifiée à temps ; réponds plus court",
        "the expression {pattern} could not be checked in time; answer more briefly",
    ),
    "form_required": ("clé(s) absente(s) : {names}", "missing key(s): {names}"),
    "form_additionalProperties": ("clé(s) en trop : {names}", "unexpected key(s): {names}"),
    "form_type": ("type attendu : {limit} ; reçu {value}", "expected type: {limit}; got {value}"),
    "form_enum": (
        "valeurs acceptées : {limit} ; reçu {value}",
        "accepted values: {limit}; got {value}",
    ),
    "form_const": ("valeur attendue : {limit} ; reçu {value}", "expected: {limit}; got {value}"),
    "form_pattern": (
        "doit suivre le motif {limit} ; reçu {value}",
        "must match {limit}; got {value}",
    ),
    "form_minimum": ("doit être ≥ {limit} ; reçu {value}", "must be ≥ {limit}; got {value}"),
    "form_maximum": ("doit être ≤ {limit} ; reçu {value}", "must be ≤ {limit}; got {value}"),
    "form_exclusiveMinimum": (
        "doit être > {limit} ; reçu {value}",
        "must be > {limit}; got {value}",
    ),
    "form_exclusiveMaximum": (
        "doit être < {limit} ; reçu {value}",
        "must be < {limit}; got {value}",
    ),
    "form_multipleOf": (
        "doit être un multiple de {limit} ; reçu {value}",
        "must be a multiple of {limit}; got {value}",
    ),
    "form_minLength": (
        "au moins {limit} caractères ; reçu {count}",
        "at least {limit} characters; got {count}",
    ),
    "form_maxLength": (
        "au plus {limit} caractères ; reçu {count}",
        "at most {limit} characters; got {count}",
    ),
    "form_minItems": (
        "au moins {limit} éléments ; reçu {count}",
        "at least {limit} items; got {count}",
    ),
    "form_maxItems": (
        "au plus {limit} éléments ; reçu {count}",
        "at most {limit} items; got {count}",
    ),
    "form_other": (
        "ne respecte pas {name} : {limit}",
        "does not respect {name}: {limit}",
    ),
}

_REASONS: dict[str, tuple[str, str]] = {
    "timeout": ("délai dépassé", "timed out"),
    "cancelled": ("arrêt demandé", "stopped"),
    "crash": ("process interrompu", "process died"),
    "lease_lost": ("bail perdu", "lease lost"),
    "exception": ("erreur après le départ", "error after it left"),
    "connection": ("connexion perdue", "connection lost"),
}


def say(language: Language, key: str, /, **params: object) -> str:
    """Sentence for the model.

    Raises:
        KeyError: no sentence has this key.

    """
    french, english = _SENTENCES.get(key) or _FORM[key]
    return (french if language == "fr" else english).format(**params)


def reason(language: Language, code: str) -> str:
    """Why an outcome is unknown."""
    french, english = _REASONS[code]
    return french if language == "fr" else english


def unknown(language: Language, doubt: str, because: str = "") -> str:
    """What is told of a call of which nobody knows whether it acted, and why it stays so."""
    told = say(language, "unknown_outcome", reason=reason(language, doubt or "crash"))
    return say(language, "not_again", told=told, reason=because) if because else told
