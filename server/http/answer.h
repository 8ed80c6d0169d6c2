/* From a reply to a response of the HTTP library, with the headers that every answer carries. Polling thread only. */
#ifndef VTS_HTTP_ANSWER_H
#define VTS_HTTP_ANSWER_H

#include "server/http/request.h"

/* Queues request->reply and empties it; the phase becomes SENT. */
enum MHD_Result vts_answer_send(vts_request *request);

/* Queues a response made elsewhere, with the headers that every answer carries; takes it over. */
enum MHD_Result vts_answer_response(vts_request *request, int status, struct MHD_Response *response);

/* Turns request->refusal into request->reply. */
void vts_answer_refusal(vts_request *request);

#endif
