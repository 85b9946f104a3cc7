package org.refdb.gerrit.refs;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.AbstractMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;

/** The refs that a user may see. A list has branches and tags; a look-up by name finds any. */
final class RefMap extends AbstractMap<String, Ref> {
  private final RefDatabase visible;
  private final Map<String, Ref> listed = new TreeMap<>();

  RefMap(RefDatabase visible) throws IOException {
    this.visible = visible;
    for (Ref ref : visible.getRefsByPrefix(Constants.R_HEADS, Constants.R_TAGS)) {
      listed.put(ref.getName(), ref);
    }
  }

  RefDatabase visible() {
    return visible;
  }

  @Override
  public Ref get(Object name) {
    Ref known = listed.get((String) name);
    try {
      return known != null ? known : visible.exactRef((String) name);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public boolean containsKey(Object name) {
    return get(name) != null;
  }

  @Override
  public Set<Entry<String, Ref>> entrySet() {
    return listed.entrySet();
  }
}
