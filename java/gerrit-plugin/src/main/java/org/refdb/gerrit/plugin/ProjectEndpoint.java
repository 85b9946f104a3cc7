package org.refdb.gerrit.plugin;

import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.restapi.ResourceConflictException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestApiException;
import com.google.gerrit.extensions.restapi.RestModifyView;
import com.google.gerrit.server.project.ProjectResource;
import java.io.IOException;

/** REST adapter of an operation on one project: an I/O error is reported as 409 Conflict with its causes. */
abstract class ProjectEndpoint<I, O> implements RestModifyView<ProjectResource, I> {
  abstract O execute(Project.NameKey project, I input) throws IOException, RestApiException;

  @Override
  public final Response<O> apply(ProjectResource project, I input) throws RestApiException {
    try {
      return Response.ok(execute(project.getNameKey(), input));
    } catch (IOException e) {
      throw new ResourceConflictException(ErrorText.of(e), e);
    }
  }
}
