package org.refdb.jgit;

import java.time.Instant;
import java.time.ZoneOffset;
import org.eclipse.jgit.lib.CheckoutEntry;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.ReflogEntry;
import org.refdb.engine.LogEntry;

record RefdbReflogEntry(ObjectId oldId, ObjectId newId, PersonIdent who, String comment) implements ReflogEntry {
  private static final String MOVING_FROM = "checkout: moving from ";
  private static final String TO = " to ";

  static RefdbReflogEntry of(LogEntry entry) {
    Instant when = Instant.ofEpochSecond(entry.seconds());
    PersonIdent who = new PersonIdent(entry.name(), entry.email(), when, zone(entry.offset()));
    return new RefdbReflogEntry(
        ObjectId.fromRaw(entry.oldId()), ObjectId.fromRaw(entry.newId()), who, entry.message());
  }

  /** Returns the zone of an offset, where 130 stands for +0130. Invalid ones, and those from 18 hours on, are UTC. */
  private static ZoneOffset zone(int offset) {
    int hours = offset / 100;
    int minutes = offset % 100;
    boolean isZone = Math.abs(hours) < 18 && Math.abs(minutes) < 60;
    return isZone ? ZoneOffset.ofHoursMinutes(hours, minutes) : ZoneOffset.UTC;
  }

  @Override
  public ObjectId getOldId() {
    return oldId;
  }

  @Override
  public ObjectId getNewId() {
    return newId;
  }

  @Override
  public PersonIdent getWho() {
    return who;
  }

  @Override
  public String getComment() {
    return comment;
  }

  @Override
  public CheckoutEntry parseCheckout() {
    int to = comment.indexOf(TO, MOVING_FROM.length());
    if (!comment.startsWith(MOVING_FROM) || to < 0) {
      return null;
    }
    return new Checkout(comment.substring(MOVING_FROM.length(), to), comment.substring(to + TO.length()));
  }

  private record Checkout(String from, String to) implements CheckoutEntry {
    @Override
    public String getFromBranch() {
      return from;
    }

    @Override
    public String getToBranch() {
      return to;
    }
  }
}
