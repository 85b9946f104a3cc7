package com.gerritforge.gerrit.globalrefdb;

import com.google.gerrit.entities.Project;

/** A global ref database that can also set values without comparing the old ones. */
public interface ExtendedGlobalRefDatabase extends GlobalRefDatabase {
  /** Sets a value. */
  <T> void put(Project.NameKey project, String refName, T newValue) throws GlobalRefDbSystemError;
}
