package org.refdb.jgit;

import org.eclipse.jgit.events.RefsChangedEvent;

/** Someone else has changed refs, as a question to the repository has found out. */
public final class RefsNoticedEvent extends RefsChangedEvent {}
