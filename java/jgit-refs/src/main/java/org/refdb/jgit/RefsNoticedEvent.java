package org.refdb.jgit;

import org.eclipse.jgit.events.RefsChangedEvent;

/** Notifies listeners that a query has found refs that others have changed. */
public final class RefsNoticedEvent extends RefsChangedEvent {}
