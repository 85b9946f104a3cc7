package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.util.Set;

/** Owner, group and mode of a file. */
record Ownership(UserPrincipal owner, GroupPrincipal group, Set<PosixFilePermission> permissions) {
  private static final Set<PosixFilePermission> NEW_FILE = PosixFilePermissions.fromString("rw-r--r--");

  static Ownership of(Path path) throws IOException {
    PosixFileAttributes attributes = Files.readAttributes(path, PosixFileAttributes.class);
    return new Ownership(attributes.owner(), attributes.group(), attributes.permissions());
  }

  /** The attributes of a new file in a folder: owner and group of the folder, readable for all who may enter it. */
  Ownership ofFileInside() {
    return new Ownership(owner, group, NEW_FILE);
  }

  /** Applies these attributes to a new file, but not through a link, which another user may have put in its place. */
  void giveTo(Path fresh) throws IOException {
    PosixFileAttributeView view =
        Files.getFileAttributeView(fresh, PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS);
    PosixFileAttributes now = view.readAttributes();
    if (!now.owner().equals(owner)) {
      view.setOwner(owner);
    }
    if (!now.group().equals(group)) {
      view.setGroup(group);
    }
    view.setPermissions(permissions);
  }

  @Override
  public String toString() {
    return owner.getName() + ":" + group.getName() + " " + PosixFilePermissions.toString(permissions);
  }
}
